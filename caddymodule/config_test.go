package caddymodule

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// TestDefaults checks those of an app-server, [TestDocumentedDefaults] the others.
func TestDefaults(t *testing.T) {
	h := provision(t, new(Handler)).handlers[0]
	kept := Conversations{Max: 128, Idle: caddy.Duration(10 * time.Minute), Parked: caddy.Duration(30 * time.Minute)}
	if len(h.AppServers) != 1 || !reflect.DeepEqual(*h.AppServers[0], AppServer{Conversations: kept}) {
		t.Errorf("app_servers: %+v", h.AppServers)
	}
	cfg := resolved(t, h.AppServers[0])
	if cfg.MaxMemory != 1<<30 {
		t.Errorf("max_memory %d", cfg.MaxMemory)
	}
	if got := strings.Join(cfg.Command, " "); got != "codex app-server" || cfg.Home != "" {
		t.Errorf("the process runs %q with the home %q", got, cfg.Home)
	}
}

// A default does not replace a value that is set.
func TestSetValuesStay(t *testing.T) {
	config := `{"app_servers":[{"command":["x","app-server"]}],"max_body":7,"max_concurrent":8,"max_per_user":6,"max_queue":0,"max_queue_wait":"7s","idle_timeout":"9s","keepalive":-1,"drain_timeout":"3s"}`
	ctx, _ := newContext(t)
	loaded, err := ctx.LoadModuleByID("http.handlers.codex", json.RawMessage(config))
	must.OK(t, err)
	h := loaded.(*Handler)
	if h.AppServers[0].Command[0] != "x" ||
		h.MaxBody != 7 || h.MaxConcurrent != 8 || h.MaxPerUser != 6 || *h.MaxQueue != 0 || time.Duration(h.MaxQueueWait) != 7*time.Second ||
		time.Duration(h.IdleTimeout) != 9*time.Second || h.Keepalive != -1 ||
		time.Duration(h.DrainTimeout) != 3*time.Second {
		t.Errorf("%+v with %+v", h, h.AppServers[0])
	}
}

func TestRefusedConfigurations(t *testing.T) {
	t.Setenv("CADDYMODULE_EMPTY", "")
	t.Setenv("CADDYMODULE_MODEL", "a-model")
	notExecutable := filepath.Join(t.TempDir(), "program")
	must.OK(t, os.WriteFile(notExecutable, nil, 0o600))
	for _, test := range []struct{ config, want string }{
		{`{"no_such_option":1}`, `unknown field "no_such_option"`},
		{`{"app_servers":[{"connect":"ws://a"}]}`, "an app-server elsewhere is no longer supported"},
		{`{"app_servers":[{"start_timeout":"1m"}]}`, "start_timeout is no longer an option"},
		{`{"app_servers":[{"conversations":{"spares":0}}]}`, "spares is no longer an option: with `conversations off`"},
		{`{"max_body_memory":1}`, "max_body_memory is no longer an option"},
		{`{"app_servers":[{"no_such_option":1}]}`, `unknown field "no_such_option"`},
		{`{"api_keys":[{"key":"a","no_such_option":1}]}`, `unknown field "no_such_option"`},
		{`{"max_body":"1MB"}`, "max_body"},
		{`{"idle_timeout":"soon"}`, "duration"},
		{`{"app_servers":[{},{}]}`, "app_server 2 is the same as one before it"},
		{`{"app_servers":[null]}`, "must not be null"},
		{`{"app_servers":[{"command":["codex",""]}]}`, "the command has an empty part"},
		{`{"app_servers":[{"command":["{env.CADDYMODULE_EMPTY}"]}]}`, "the command has an empty part"},
		{`{"app_servers":[{"command":["/no/such/codex","app-server"]}]}`, `app_server 1: cannot start: exec: "/no/such/codex": stat /no/such/codex: no such file`},
		{`{"app_servers":[{},{"command":["/no/such/codex","app-server"]}]}`, "app_server 2: "},
		{`{"app_servers":[{"command":["./no-such-program","app-server"]}]}`, "set the command to the path that `command -v codex` prints"},
		{`{"app_servers":[{"command":["/usr","app-server"]}]}`, "cannot start"},
		{`{"app_servers":[{"command":["` + notExecutable + `","app-server"]}]}`, "permission denied"},
		{`{"app_servers":[{"command":["codex","-c","secret"]}]}`, "`codex` has no argument app-server, as in `codex app-server`"},
		{`{"app_servers":[{"command":["app-server"]}]}`, "`app-server` has no argument app-server"},
		{`{"app_servers":[{"home":"{env.CADDYMODULE_EMPTY}"}]}`, "{env.CADDYMODULE_EMPTY} is empty"},
		{`{"app_servers":[{"home":"/srv/{env.CADDYMODULE_EMPTY}"}]}`, "app_server: home: "},
		{`{"app_servers":[{"env":{"":"x"}}]}`, `"" is not the name of a variable`},
		{`{"app_servers":[{"env":{"A=B":"x"}}]}`, `the name "A" is followed by =`},
		{`{"app_servers":[{"processes":2},{}]}`, "app_server 2 is the same as one before it"},
		{`{"app_servers":[{"processes":-1}]}`, "app_server: processes: must be a number above zero"},
		{`{"app_servers":[{"processes":1025}]}`, "processes: must be at most 1024"},
		{`{"stop_after_tools_grace":-1}`, "stop_after_tools_grace: must be a duration from 0 up"},
		{`{"suppress_tail_after_tools":"off"}`, "suppress_tail_after_tools"},
		{`{"tool_block_max":1025}`, "tool_block_max: must be at most 1024"},
		{`{"xml_escape":"html"}`, `xml_escape: "html" must be one of literal, entities`},
		{`{"usage":"everybody"}`, `usage: "everybody" must be one of own, all`},
		{`{"max_body":-1}`, "max_body: must be a size above zero"},
		{`{"record":{"mode":"some"}}`, `record: mode: "some" must be one of off, errors, all`},
		{`{"record":{"directory_age":-1}}`, "record: directory_age: must be a duration above zero"},
		{`{"record":{"directory":"{env.CADDYMODULE_EMPTY}"}}`, "record: "},
		{`{"record":{"no_such_option":1}}`, `unknown field "no_such_option"`},
		{`{"store":{"type":"storage"}}`, "unknown module: http.codex.stores.storage"},
		{`{"store":{"size":-1}}`, "size: must be a size above zero"},
		{`{"store":{"type":"redis"}}`, "redis needs the URL of the server"},
		{`{"store":{"type":"redis","urls":["redis://u:hidden@h:x"]}}`, "URL 1 is not one such as redis://USER:PASSWORD@HOST:PORT/DB"},
		{`{"store":{"type":"redis","urls":["redis://{env.NO_SUCH_VARIABLE}@h"]}}`, "URL 1 has a placeholder that is empty or unknown"},
		{`{"store":{"dir":"x"}}`, `unknown field "dir"`},
		{`{"store":{"type":"disk","prefix":"x"}}`, `unknown field "prefix"`},
		{`{"store":{"type":"off","age":"1h"}}`, `unknown field "age"`},
		{`{"max_per_user":65}`, "max_per_user: must be at most max_concurrent, which is 64"},
		{`{"max_queue":-1}`, "max_queue: must be a number from 0 up"},
		{`{"api_keys":[{"user":"alice"}]}`, "api_key 1 is empty"},
		{`{"pool":{"policy":"reserve"},"app_servers":[{}]}`, "of 1 app_servers 1 cannot be the reserve"},
		{`{"pool":{"policy":"reserve","reserve":2},"app_servers":[{},{"home":"/x"}]}`, "of 2 app_servers 2 cannot"},

		{`{"models":[{"model":"gpt-5"}]}`, "model 1: the id must not be empty"},
		{`{"models":[{"id":"a"},{"id":"a"}]}`, "model 2 has the name of another one, a"},
		{`{"models":[{"id":"a-model"},{"id":"{env.CADDYMODULE_MODEL}"}]}`, "model 2 has the name of another one, a-model"},
		{`{"models":[{"id":"a"},{"id":"{env.NO_SUCH_MODEL}"}]}`, "model 2 has a placeholder"},
		{`{"models":[{"id":"a"},{"id":"b","model":"{env.NO_SUCH_MODEL}"}]}`, "model 2 has a placeholder"},
		{`{"models":[{"id":"a"},{"id":"b","model":"{file./no/such/file}"}]}`, "model 2 has a placeholder"},
		{`{"models":[{"id":"a","effort":"huge"}]}`, `model: a: effort: "huge" must be one of none,`},
		{`{"models":[{"id":"a","force_effort":true}]}`, "a has no effort to force"},
		{`{"models":[{"id":"a*"}]}`, "a* stands for many names"},
		{`{"models":[{"id":"a*b","model":"gpt-5"}]}`, "a*b: a * must be the last character"},
		{`{"models":[{"id":"**","model":"gpt-5"}]}`, "a * must be the last character"},

		{`{"cors":["*","https://app.example"]}`, "it stands alone"},
		{`{"cors":["app.example"]}`, `"app.example" is not an origin`},
		{`{"cors":[""]}`, `"" is not an origin`},
		{`{"cors":["{env.NO_SUCH_ORIGIN}"]}`, "NO_SUCH_ORIGIN"},
		{`{"hosts":[""]}`, `"" is not the name of a host`},
		{`{"hosts":["http://a.example"]}`, "is not the name"},
		{`{"hosts":["a.example:80"]}`, "is not the name"},
		{`{"hosts":["a example"]}`, "is not the name"},
		{`{"hosts":["ap*.example.com"]}`, "is not the name"},
		{`{"hosts":["*a.example.com"]}`, "is not the name"},
		{`{"hosts":["{env.NO_SUCH_NAME}"]}`, "hosts: "},
		{`{"hosts":["a.example","A.EXAMPLE"]}`, "is repeated"},
		{`{"realm":"{env.NO_SUCH_NAME}"}`, "realm: "},

		{`{"textual_patterns":{"none":{}}}`, "the module http.codex.patterns.none, a *caddymodule.notAPattern, is not an aggregator.Pattern"},
		{`{"textual_patterns":{"no_such":{}}}`, "unknown module: http.codex.patterns.no_such"},
		{`{"textual_patterns":{"line":{"words":"x"}}}`, `unknown field "words"`},
		{`{"textual_patterns":{"line":{"word":"` + strings.Repeat("x", 64) + `"}}}`, `"line": its opener is longer than 64 bytes`},
	} {
		if err := refused(t, test.config); !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s is refused with %q; want %q", test.config, err, test.want)
		}
	}
	if n := pooled(); n != 0 {
		t.Errorf("%d processes were made", n)
	}
}

// TestAcceptedCommands checks that no command is refused that may work where Caddy runs.
func TestAcceptedCommands(t *testing.T) {
	wrapper := filepath.Join(t.TempDir(), "wrapper")
	must.OK(t, os.WriteFile(wrapper, nil, 0o700))
	for _, program := range []string{wrapper, "no-such-program", "env"} {
		provision(t, &Handler{AppServers: []*AppServer{{Command: []string{program, "-c", "a=b", "app-server"}}}})
	}
}

func TestAppTakesNoOptions(t *testing.T) {
	ctx, _ := newContext(t)
	if _, err := ctx.LoadModuleByID("codex", json.RawMessage(`{}`)); err != nil {
		t.Error(err)
	}
	if _, err := ctx.LoadModuleByID("codex", json.RawMessage(`{"logger":1}`)); err == nil {
		t.Error("an unknown field is accepted")
	}
}

var snakeCase = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)

// TestDocumentation checks the comments from which Caddy's site makes the documentation:
// those of each exported type and of its fields, which have names in JSON.
func TestDocumentation(t *testing.T) {
	files, err := filepath.Glob("*.go")
	must.OK(t, err)
	var structs []string
	for _, name := range files {
		if !strings.HasSuffix(name, "_test.go") {
			structs = append(structs, checkFile(t, name, ast.IsExported)...)
		}
	}
	for _, name := range []string{"local.go", "redis.go"} {
		structs = append(structs, checkFile(t, "storemodules/"+name, ast.IsExported)...)
	}
	structs = append(structs, checkFile(t, "../internal/turn/options.go", func(name string) bool { return name == "ToolOptions" })...)
	structs = append(structs, checkFile(t, "../internal/prompt/alias.go", ast.IsExported)...)
	for _, name := range []string{"Handler", "AppServer", "APIKey", "App", "Alias", "Memory", "Disk", "Redis", "ToolOptions"} {
		if !slices.Contains(structs, name) {
			t.Errorf("there is no type %s", name)
		}
	}
}

// checkFile checks the structs of a file that are wanted and returns their names.
func checkFile(t *testing.T, path string, wanted func(string) bool) (structs []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
	must.OK(t, err)
	for _, decl := range file.Decls {
		types, ok := decl.(*ast.GenDecl)
		if !ok || types.Tok != token.TYPE {
			continue
		}
		for _, spec := range types.Specs {
			spec := spec.(*ast.TypeSpec)
			structure, ok := spec.Type.(*ast.StructType)
			if !ok || !wanted(spec.Name.Name) {
				continue
			}
			structs = append(structs, spec.Name.Name)
			if !strings.HasPrefix(types.Doc.Text(), spec.Name.Name+" ") {
				t.Errorf("%s has no comment of its own", spec.Name.Name)
			}
			checkFields(t, spec.Name.Name, structure)
		}
	}
	return structs
}

func checkFields(t *testing.T, name string, structure *ast.StructType) {
	t.Helper()
	for _, field := range structure.Fields.List {
		for _, ident := range field.Names {
			if !ident.IsExported() {
				continue
			}
			if doc := strings.TrimSpace(field.Doc.Text()); !strings.HasSuffix(doc, ".") {
				t.Errorf("%s.%s has no comment of whole sentences: %q", name, ident.Name, doc)
			}
			if field.Tag == nil {
				t.Errorf("%s.%s has no tag", name, ident.Name)
				continue
			}
			tag := reflect.StructTag(strings.Trim(field.Tag.Value, "`")).Get("json")
			if key, _, _ := strings.Cut(tag, ","); !snakeCase.MatchString(key) {
				t.Errorf("%s.%s is %q in JSON", name, ident.Name, key)
			}
		}
	}
}
