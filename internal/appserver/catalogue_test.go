package appserver

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/logbook"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/rig"
)

// scriptConfig returns a configuration whose program is a shell script. The shell reads the script:
// a file that was just written cannot be executed while another fork has it open.
func scriptConfig(t *testing.T, body string) *Config {
	t.Helper()
	script := filepath.Join(t.TempDir(), "codex.sh")
	must.OK(t, os.WriteFile(script, []byte(body), 0o600))
	return &Config{Command: []string{"/bin/sh", script, "-c", "a=b", "app-server", "--listen", "stdio"}}
}

// print runs the program for its catalogue, with the test's environment and some more.
func (cfg *Config) print(dir string, env ...string) ([]byte, error) {
	run, err := cfg.startCatalogue(context.Background(), dir, append(os.Environ(), env...), patience)
	if err != nil {
		return nil, err
	}
	return run.wait()
}

// changeAll returns the models of a list that have a name, with the catalogue of each alone.
func changeAll(list []byte) (models []Model, contents []string, err error) {
	parsed, err := parseModels(list)
	for _, model := range parsed {
		if model.entry.Slug == "" {
			continue
		}
		models, contents = append(models, model.entry), append(contents, string(model.catalogueJSON(modelChanges)))
	}
	return models, contents, err
}

func TestChangeCatalogue(t *testing.T) {
	// In the order of their names.
	const head = `"apply_patch_tool_type":null,"auto_compact_token_limit":null,"context_window":null,`
	const tail = `"experimental_supported_tools":[],"max_context_window":null,"multi_agent_version":null,`
	const tiers = `"service_tiers":` + serviceTiers + `,`
	for _, test := range []struct {
		name, in string
		want     []string
	}{
		{
			"present",
			`{"models":[{"slug":"a","tool_mode":"code_mode_only","apply_patch_tool_type":"freeform","experimental_supported_tools":["clock",{"x":[1]}],"multi_agent_version":"v2","supports_search_tool":true,"context_window":272000,"max_context_window":1,"auto_compact_token_limit":9}]}`,
			[]string{`{"models":[{` + head + tail + tiers + `"slug":"a","supports_search_tool":false,"tool_mode":"direct"}]}`},
		},
		{"no_members", `{"models":[{"slug":"a"}]}`, []string{`{"models":[{` + head + tail + tiers + `"slug":"a","supports_search_tool":false,"tool_mode":"direct"}]}`}},
		{"no_names", `{"models":[{},{"slug":7}]}`, nil},
		{
			// Only members of a model count; numbers and escapes stay as they are.
			"all_else",
			"\n{\"tool_mode\":\"x\",\"v\" : 1.0e2,\"models\" :\t[ {\"slug\":\"\\u00e4\\/ü\", \"deep\":{\"tool_mode\":\"x\",\"list\":[{\"tool_mode\":\"y\"}]}, \"n\": 10000000000000000000001}]}\n",
			[]string{`{"models":[{` + head + `"deep":{"tool_mode":"x","list":[{"tool_mode":"y"}]},` + tail + `"n":10000000000000000000001,` + tiers + `"slug":"\u00e4\/ü","supports_search_tool":false,"tool_mode":"direct"}]}`},
		},
		{
			"each_of_several", `{"models":[{"slug":"a"},{},{"slug":"b","x":1}]}`,
			[]string{
				`{"models":[{` + head + tail + tiers + `"slug":"a","supports_search_tool":false,"tool_mode":"direct"}]}`,
				`{"models":[{` + head + tail + tiers + `"slug":"b","supports_search_tool":false,"tool_mode":"direct","x":1}]}`,
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, got, err := changeAll([]byte(test.in))
			if err != nil || !slices.Equal(got, test.want) {
				t.Errorf("got  %s (%v)\nwant %s", got, err, test.want)
			}
		})
	}
}

func TestNoCatalogue(t *testing.T) {
	for in, want := range map[string]string{
		``:                          "end of JSON",
		`{"models":[{"slug":"a"}`:   "end of JSON",
		`{"models":[]} {}`:          "after top-level value",
		`[]`:                        "cannot unmarshal array",
		`{"data":[]}`:               "no models",
		`{"models":{"slug":"a"}}`:   "models",
		`{"models":null}`:           "no models",
		`{"models":[]}`:             "no models",
		`{"models":[{"a":1},null]}`: "model 1 is not an object",
		`{"models":[{"a":1},"b"]}`:  "models",
		`{"models":[` + strings.Repeat("{},", maxModels) + `{}]}`: "1001 models",
	} {
		if got, _, err := changeAll([]byte(in)); err == nil || !strings.Contains(err.Error(), want) || got != nil {
			t.Errorf("%.50s: got %v, %v; want %q", in, got, err, want)
		}
	}
}

func FuzzChangeCatalogue(f *testing.F) {
	f.Add([]byte(`{"models":[{"slug":"a","tool_mode":"x"},{}]}`))
	f.Add([]byte(`{"models":[ { "\u0074ool_mode" : [1, {"b":"}"}], "slug":1 } ] }`))
	f.Fuzz(func(t *testing.T, in []byte) {
		models, contents, err := changeAll(in)
		if err != nil {
			return
		}
		for i, content := range contents {
			again, unchanged, err := changeAll([]byte(content))
			if err != nil || len(again) != 1 || again[0] != models[i] || unchanged[0] != content {
				t.Fatalf("%q became %q, then %q (%v)", in, content, unchanged, err)
			}
		}
	})
}

func TestCatalogueRun(t *testing.T) {
	cfg := scriptConfig(t, `
		printf '%s\n' "$@" >args
		printf '%s\n' "$CODEX_HOME" "$OWN" >env
		echo 'a warning' >&2
		echo printed`)
	dir := t.TempDir()
	if printed, err := cfg.print(dir, "CODEX_HOME=/the/codex/home", "OWN=1"); err != nil || string(printed) != "printed\n" {
		t.Errorf("it printed %q (%v)", printed, err)
	}
	checkTestFile(t, filepath.Join(dir, "args"), "-c\na=b\ndebug\nmodels\n-c\ncli_auth_credentials_store=\"ephemeral\"\n")
	checkTestFile(t, filepath.Join(dir, "env"), "/the/codex/home\n1\n")
	if want := []string{"-c", "a=b", "app-server", "--listen", "stdio"}; !slices.Equal(cfg.Command[2:], want) {
		t.Errorf("the command itself became %q", cfg.Command)
	}
}

// newTestCatalogue returns a catalogue in a home, and the log that it uses.
func newTestCatalogue(t *testing.T, printed string) (*catalogue, *privateHome, *logbook.Book) {
	t.Helper()
	home := &privateHome{path: t.TempDir()}
	must.OK(t, os.Mkdir(home.codexDir(), 0o700))
	book := new(logbook.Book)
	c, err := newCatalogue([]byte(printed), home, book.Logger)
	must.OK(t, err)
	return c, home, book
}

func TestNewCatalogue(t *testing.T) {
	printed := `{"models":[{"slug":"a","use_responses_lite":false},{"slug":"b","use_responses_lite":true}]}`
	c, home, _ := newTestCatalogue(t, printed)
	_, contents, _ := changeAll([]byte(printed))
	if len(c.models) != 2 {
		t.Fatalf("has %+v", c.models)
	}
	for i, model := range c.models {
		checkTestFile(t, model.Catalogue, contents[i])
		if info, err := os.Stat(model.Catalogue); err != nil || info.Mode().Perm() != 0o600 || filepath.Dir(model.Catalogue) != home.path {
			t.Errorf("%s is %v (%v)", model.Catalogue, info.Mode(), err)
		}
	}
	if full := c.models[0].Full; full != "" {
		t.Errorf("a model that is not lite has %s, too", full)
	}
	checkTestFile(t, c.models[1].Full, strings.Replace(contents[1], `"use_responses_lite":true`, `"use_responses_lite":false`, 1))
	checkTestFile(t, c.fallbackPath, fallbackCatalogue)
	none := &privateHome{path: filepath.Join(t.TempDir(), "none")}
	if c, err := newCatalogue([]byte(printed), none, nil); !errors.Is(err, os.ErrNotExist) || c != nil {
		t.Errorf("got %+v, %v", c, err)
	}
}

// TestLearnedModels checks that a model which only the back end lists gets an entry of its
// own as soon as Codex has stored the list, and that an unreadable list is logged once.
func TestLearnedModels(t *testing.T) {
	c, home, book := newTestCatalogue(t, `{"models":[{"slug":"known","tool_mode":"direct","context_window":5,"max_context_window":8}]}`)
	at := time.Now()
	store := func(list string) {
		t.Helper()
		writeTestFile(t, home.codexFile(backendModelsFile), list)
		at = at.Add(time.Second)
		must.OK(t, os.Chtimes(home.codexFile(backendModelsFile), at, at))
	}
	if got := c.find("new"); got != (Model{}) {
		t.Errorf("without a list it found %+v", got)
	}
	store(`{"models":`)
	if known := c.find("known"); known.Window != 5 {
		t.Errorf("found %+v", known)
	}
	for range 2 {
		if got := c.find("new"); got != (Model{}) {
			t.Errorf("found %+v", got)
		}
	}
	if n := strings.Count(book.String(), "cannot be read"); n != 1 {
		t.Errorf("the list was reported %d times", n)
	}
	store(`{"fetched_at":"2026-01-01T00:00:00Z","etag":"x","models":[{"slug":"known","base_instructions":"other","context_window":6},` +
		`{"slug":"new","tool_mode":"code_mode_only","apply_patch_tool_type":"freeform","use_responses_lite":true,"supports_reasoning_effort_updates":true,"base_instructions":"N"}]}`)
	got := c.find("new-2027-01-01")
	if got.Slug != "new" || got.Prompt != "N" || !got.Lite || !got.Efforts || c.find("known").Efforts || c.find("provider/new") != got {
		t.Fatalf("found %+v", got)
	}
	content, err := os.ReadFile(got.Catalogue)
	if err != nil || !strings.Contains(string(content), `"tool_mode":"direct"`) || !strings.Contains(string(content), `"apply_patch_tool_type":null`) {
		t.Errorf("its entry is %s (%v)", content, err)
	}
	if known := c.find("known"); known.Prompt != "" || known.Window != 6 {
		t.Errorf("the back end has changed more than the window of a model that the program knows, or less: %+v", known)
	}
	store(`{"models":[` + strings.Repeat(`{"slug":"x"},`, maxModels-1) + `{"slug":"y"}]}`)
	if c.find("y").Slug != "y" || len(c.models) != 4 {
		t.Errorf("has %d models", len(c.models))
	}
}

func writeTestFile(t *testing.T, path, content string) {
	t.Helper()
	must.OK(t, os.WriteFile(path, []byte(content), 0o600))
}

func checkTestFile(t *testing.T, path, want string) {
	t.Helper()
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%s is %q (%v); want %q", filepath.Base(path), got, err, want)
	}
}

func TestCatalogueRunFails(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, script string
		want         []string
	}{
		{"exit_code", `echo 'Error: broken = [' >&2; echo '  at line 7' >&2; echo >&2; echo 'Stack backtrace:' >&2; echo ' 0: <unknown>' >&2; echo '{"models":[{}]}'; exit 3`,
			[]string{"debug models", "exit status 3", "it said: Error: broken = [ at line 7"}},
		{"exit_code_without_a_word", `exit 4`, []string{"exit status 4"}},
		{"unknown_subcommand", `echo "error: unrecognized subcommand 'models'" >&2; exit 2`, []string{"exit status 2", "unrecognized subcommand"}},
		{"says_much", `yes complaint | head -n 100000 >&2; exit 5`, []string{"exit status 5", "complaint complaint", "…"}},
		{"signal", `kill -9 $$`, []string{"signal: killed"}},
		{"huge", `exec yes`, []string{"printed more than 16777216 bytes"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := scriptConfig(t, test.script).print(t.TempDir())
			for _, part := range test.want {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("got %v, without %q", err, part)
				}
			}
			if err != nil && (strings.Contains(err.Error(), "<unknown>") || len(err.Error()) > 1000) {
				t.Errorf("it says too much: %v", err)
			}
		})
	}
}

func TestCatalogueCommand(t *testing.T) {
	for _, command := range [][]string{nil, {"codex"}, {"/bin/codex.exe", "secret"}, {"app-server"}} {
		cfg := Config{Command: command}
		if _, err := cfg.print(t.TempDir()); err == nil || !errors.Is(err, errNoArgument) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: got %v", command, err)
		}
	}
	for _, command := range [][]string{{"no-such-name", "secret", "app-server"}, {"no-such-name", "secret"}} { // the second is a wrapper
		cfg := Config{Command: command}
		if _, err := cfg.print(t.TempDir()); err == nil || !strings.Contains(err.Error(), "no-such-name debug models") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: got %v", command, err)
		}
	}
}

// A program that hangs is ended with its children, by the timeout or earlier.
func TestCatalogueOfAProgramThatHangs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cfg := scriptConfig(t, `sleep 1000 & echo $! >pid; wait`)
	reason := errors.New("the server ends")
	ctx, end := context.WithCancelCause(t.Context())
	run, err := cfg.startCatalogue(ctx, dir, os.Environ(), patience)
	must.OK(t, err)
	pid := readPID(t, filepath.Join(dir, "pid"))
	end(reason)
	if _, err := run.wait(); !errors.Is(err, reason) {
		t.Errorf("got %v", err)
	}
	awaitGone(t, pid)

	run, err = cfg.startCatalogue(t.Context(), dir, os.Environ(), time.Second)
	if err == nil {
		_, err = run.wait()
	}
	if err == nil || !strings.Contains(err.Error(), "did not end within 1s") {
		t.Errorf("got %v", err)
	}
}

// Output that a child keeps open is not waited for.
func TestCatalogueWithAnOpenEnd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cfg := scriptConfig(t, `sleep 1000 & echo $! >pid; echo '{"models":[{}]}'`)
	if _, err := cfg.print(dir); err == nil {
		t.Error("output that may go on was taken for whole")
	}
	awaitGone(t, readPID(t, filepath.Join(dir, "pid")))
}

// TestCatalogueKnows checks that a model is found by its name or as a dated version of
// one. No other may be found: Codex would take it for that model.
func TestCatalogueKnows(t *testing.T) {
	models, _, _ := newTestCatalogue(t, `{"models":[{"slug":"gpt-9","base_instructions":1},{"slug":""},{"name":"x"},{"slug":"gpt-9-mini","use_responses_lite":true,"base_instructions":"P"}]}`)
	for model, want := range map[string]string{
		"gpt-9": "gpt-9", "gpt-9-2026-01-01": "gpt-9", "gpt-9-mini": "gpt-9-mini", "of/gpt-9": "gpt-9",
		"gpt-90": "", "gpt-8": "", "": "", "-": "", "gpt-9/x": "", "of/": "",
	} {
		if entry := models.find(model); entry.Slug != want {
			t.Errorf("%q is %q", model, entry.Slug)
		}
	}
	if entry := models.find("gpt-9-mini-2026-01-01"); entry.Slug != "gpt-9-mini" || entry.Prompt != "P" || !entry.Lite || entry.Catalogue == "" || entry.Full == "" {
		t.Errorf("found %+v", entry)
	}
	described, _, _ := newTestCatalogue(t, `{"models":[{"slug":"a","display_name":"A","context_window":5,"max_context_window":7,"input_modalities":["text"],"supported_reasoning_levels":[{"effort":"high"},{"effort":"ultra"},{"effort":"low"},7]},
		{"slug":"b","input_modalities":["text","image"],"supported_reasoning_levels":null,"context_window":"many"},{"slug":"c","context_window":9,"max_context_window":8}]}`)
	for name, want := range map[string]Model{"a": {Title: "A", Window: 5, Blind: true, Least: "low", Most: "high"}, "b": {}, "c": {Window: 9}} {
		if got := described.find(name); got.Title != want.Title || got.Window != want.Window || got.Blind != want.Blind || got.Least != want.Least || got.Most != want.Most {
			t.Errorf("%s is %+v", name, got)
		}
	}
	described.window = 6 // the operator's model_context_window
	for _, name := range []string{"a", "b", "unknown"} {
		if got := described.find(name); got.Window != 6 {
			t.Errorf("%s is %+v", name, got)
		}
	}
	if (*catalogue)(nil).find("gpt-9") != (Model{}) {
		t.Error("no catalogue knows a model")
	}
}

// TestStartHasForked checks that both forks are over when Start returns.
func TestStartHasForked(t *testing.T) {
	script := scriptConfig(t, `exec sleep 1000`)
	p := newTestProcess(t, "", func(cfg *Config) { cfg.Command = script.Command })
	before := len(rig.Below(os.Getpid()))
	p.Start()
	if n := len(rig.Below(os.Getpid())) - before; n != 2 {
		t.Errorf("%d children run, want the app-server and its catalogue's", n)
	}
}
