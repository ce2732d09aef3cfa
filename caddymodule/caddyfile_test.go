package caddymodule

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	_ "github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// Each option gives the expected JSON.
func TestDirective(t *testing.T) {
	for name, test := range map[string]struct{ directive, want string }{
		"no block":                    {"codex", `{}`},
		"empty block":                 {"codex {\n}", `{}`},
		"app_server":                  {"codex {\napp_server /opt/codex app-server -c a=b\n}", `{"app_servers":[{"command":["/opt/codex","app-server","-c","a=b"]}]}`},
		"app_server without anything": {"codex {\napp_server\n}", `{"app_servers":[{}]}`},
		"app_server with a block beside the command": {
			"codex {\napp_server codex app-server {\nhome /srv/codex\n}\n}",
			`{"app_servers":[{"command":["codex","app-server"],"home":"/srv/codex"}]}`,
		},
		"everything in a block": {
			`codex {
				app_server {
					command codex app-server
					home /srv/codex
					env A 1
					env B "two words"
					env C ""
				}
			}`,
			`{"app_servers":[{"command":["codex","app-server"],"home":"/srv/codex",
				"env":{"A":"1","B":"two words","C":""}}]}`,
		},
		"several app_servers": {
			"codex {\napp_server one\napp_server {\ncommand two\nprocesses 3\nmax_memory 512MiB\n}\napp_server {\nhome /srv\n}\n}",
			`{"app_servers":[{"command":["one"]},{"command":["two"],"processes":3,"max_memory":536870912},
				{"home":"/srv"}]}`,
		},
		"no conversations":          {"codex {\napp_server {\nconversations off\n}\n}", `{"app_servers":[{"conversations":{"off":true}}]}`},
		"conversations":             {"codex {\napp_server {\nconversations {\nmax 3\nidle 1m\nparked off\n}\n}\n}", `{"app_servers":[{"conversations":{"max":3,"idle":60000000000,"parked":-1}}]}`},
		"conversations on":          {"codex {\napp_server {\nconversations on {\nparked 1h\n}\n}\n}", `{"app_servers":[{"conversations":{"parked":3600000000000}}]}`},
		"no limit of memory":        {"codex {\napp_server {\nmax_memory off\n}\n}", `{"app_servers":[{"max_memory":-1}]}`},
		"drain_timeout":             {"codex {\ndrain_timeout 1m\n}", `{"drain_timeout":60000000000}`},
		"empty block of app_server": {"codex {\napp_server {\n}\nmax_concurrent 1\n}", `{"app_servers":[{}],"max_concurrent":1}`},
		"quoted brace":              {"codex {\napp_server codex \"{\"\n}", `{"app_servers":[{"command":["codex","{"]}]}`},
		"api_key":                   {"codex {\napi_key sk-1\n}", `{"api_keys":[{"key":"sk-1"}]}`},
		"api_key with a user":       {"codex {\napi_key sk-1 alice\n}", `{"api_keys":[{"key":"sk-1","user":"alice"}]}`},
		"hosts":                     {"codex {\nhosts a.example *.b.example\n}", `{"hosts":["a.example","*.b.example"]}`},
		"api_keys_file":             {"codex {\napi_keys_file {env.KEYS}/keys\n}", `{"api_keys_file":"{env.KEYS}/keys"}`},
		"several api_keys":          {"codex {\napi_key sk-1 alice\napi_key sk-2\n}", `{"api_keys":[{"key":"sk-1","user":"alice"},{"key":"sk-2"}]}`},
		"placeholders": {
			"codex {\napp_server {env.BIN} {\nhome {env.HOME}/x\nenv TOKEN {file./run/token}\n}\napi_key {env.KEY} {env.USER}\n}",
			`{"app_servers":[{"command":["{env.BIN}"],"home":"{env.HOME}/x","env":{"TOKEN":"{file./run/token}"}}],
				"api_keys":[{"key":"{env.KEY}","user":"{env.USER}"}]}`,
		},
		"max_body in KiB":      {"codex {\nmax_body 512KiB\n}", `{"max_body":524288}`},
		"max_body in MB":       {"codex {\nmax_body 1.5MB\n}", `{"max_body":1500000}`},
		"max_body in bytes":    {"codex {\nmax_body 10\n}", `{"max_body":10}`},
		"max_concurrent":       {"codex {\nmax_concurrent 7\n}", `{"max_concurrent":7}`},
		"max_per_user":         {"codex {\nmax_per_user 7\n}", `{"max_per_user":7}`},
		"max_queue":            {"codex {\nmax_queue 7\n}", `{"max_queue":7}`},
		"max_queue, a wait":    {"codex {\nmax_queue 7 1m\n}", `{"max_queue":7,"max_queue_wait":60000000000}`},
		"no queue":             {"codex {\nmax_queue 0\n}", `{"max_queue":0}`},
		"idle_timeout":         {"codex {\nidle_timeout 1m30s\n}", `{"idle_timeout":90000000000}`},
		"keepalive":            {"codex {\nkeepalive 5s\n}", `{"keepalive":5000000000}`},
		"no keepalive":         {"codex {\nkeepalive off\n}", `{"keepalive":-1}`},
		"pool spread":          {"codex {\npool spread\n}", `{"pool":{"policy":"spread"}}`},
		"pool reserve":         {"codex {\npool reserve\n}", `{"pool":{"policy":"reserve","reserve":1}}`},
		"pool reserve, two":    {"codex {\npool reserve 2\n}", `{"pool":{"policy":"reserve","reserve":2}}`},
		"store memory":         {"codex {\nstore memory\n}", `{"store":{"type":"memory"}}`},
		"store memory, limits": {"codex {\nstore memory {\nsize 1MiB\nage 2h\n}\n}", `{"store":{"type":"memory","size":1048576,"age":7200000000000}}`},
		"store disk":           {"codex {\nstore disk\n}", `{"store":{"type":"disk"}}`},
		"store disk, dir":      {"codex {\nstore disk /var/lib/codex {\nage 30d\n}\n}", `{"store":{"type":"disk","dir":"/var/lib/codex","age":2592000000000000}}`},
		"store redis": {"codex {\nstore redis rediss://a rediss://b {\nprefix p\nmaster m\n}\n}",
			`{"store":{"type":"redis","urls":["rediss://a","rediss://b"],"prefix":"p","master":"m"}}`},
		"record all":         {"codex {\nrecord all\n}", `{"record":{"mode":"all"}}`},
		"record off":         {"codex {\nrecord off\n}", `{"record":{"mode":"off"}}`},
		"record, into files": {"codex {\nrecord errors {\ntexts\ndirectory /srv/r 2GiB 7d\n}\n}", `{"record":{"mode":"errors","texts":true,"directory":"/srv/r","directory_size":2147483648,"directory_age":604800000000000}}`},
		"store off":          {"codex {\nstore off\n}", `{"store":{"type":"off"}}`},
		"comments":           {"codex {\n# nothing\nmax_concurrent 7 # that many\n}", `{"max_concurrent":7}`},
		"cors":               {"codex {\ncors https://app.example {env.ORIGIN}\n}", `{"cors":["https://app.example","{env.ORIGIN}"]}`},
		"cors for all":       {"codex {\ncors *\n}", `{"cors":["*"]}`},
		"no cors":            {"codex {\ncors off\n}", `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			h := new(Handler)
			must.OK(t, h.UnmarshalCaddyfile(caddyfile.NewTestDispenser(test.directive)))
			sameJSON(t, "the directive", encode(t, h), test.want)

			adapted := handlersIn(t, adapt(t, ":8080 {\n"+test.directive+"\n}\n"))
			if len(adapted) != 1 || adapted[0]["handler"] != "codex" {
				t.Fatalf("the adapter makes %v of it", adapted)
			}
			delete(adapted[0], "handler")
			sameJSON(t, "the adapter", encode(t, adapted[0]), test.want)
		})
	}
}

// The directive may have a matcher.
func TestDirectiveWithMatcher(t *testing.T) {
	handlers := handlersIn(t, adapt(t, ":8080 {\n@api header X-Api codex\ncodex @api {\nmax_concurrent 7\n}\ncodex /team/* {\nmax_concurrent 8\n}\n}\n"))
	if len(handlers) != 2 {
		t.Fatalf("%d handlers", len(handlers))
	}
	for _, h := range handlers {
		if n := h["max_concurrent"]; n != 7.0 && n != 8.0 {
			t.Errorf("a handler without its options: %v", h)
		}
	}
}

// The handler comes after those that it relies on, and before those that answer every
// request, whatever their order in the site.
func TestDirectiveOrder(t *testing.T) {
	text := `:8080 {
		respond "something else"
		file_server
		reverse_proxy localhost:9
		codex
		encode gzip
		basic_auth {
			bob $2a$04$ZS0zAbndEt1Qsoxf8KouzOUXe9vUDfx73QTM240Aqqm0YqO4/qbMC
		}
		request_body {
			max_size 1MB
		}
		header X-A b
		rewrite /a /b
	}
	`
	var order []string
	for _, h := range handlersIn(t, adapt(t, text)) {
		order = append(order, h["handler"].(string))
	}
	at := make(map[string]int)
	for i, name := range order {
		at[name] = i + 1
	}
	for _, before := range []string{"headers", "request_body", "rewrite", "authentication", "encode"} {
		if at[before] == 0 || at[before] > at["codex"] {
			t.Errorf("%s is not before codex: %q", before, order)
		}
	}
	for _, after := range []string{"static_response", "reverse_proxy", "file_server"} {
		if at[after] < at["codex"] {
			t.Errorf("%s is not after codex: %q", after, order)
		}
	}
	if at["codex"] == 0 {
		t.Errorf("no codex: %q", order)
	}
}

// adaptFile is the name that adapt gives a Caddyfile.
const adaptFile = "some.caddyfile"

func adapt(t testing.TB, text string) []byte {
	t.Helper()
	config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), map[string]any{"filename": adaptFile})
	if err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	return config
}

// handlersIn returns the handlers of a configuration in the order in which they are called.
func handlersIn(t testing.TB, config []byte) []map[string]any {
	t.Helper()
	var root any
	must.OK(t, json.Unmarshal(config, &root))
	var found []map[string]any
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, element := range v {
				walk(element)
			}
		case map[string]any:
			if name, ok := v["handler"].(string); ok && name != "subroute" {
				found = append(found, v)
				return
			}
			for _, element := range v { // at most one of a route's members has handlers
				walk(element)
			}
		}
	}
	walk(root)
	return found
}

// checkOptions checks the JSON of options in a Caddyfile, which a handler accepts.
func checkOptions(t *testing.T, jsonOf map[string]string) {
	t.Helper()
	for options, want := range jsonOf {
		h := new(Handler)
		if err := h.UnmarshalCaddyfile(caddyfile.NewTestDispenser("codex {\n" + options + "\n}")); err != nil {
			t.Errorf("%q: %v", options, err)
			continue
		}
		sameJSON(t, options, encode(t, h), want)
		provision(t, h)
	}
}

// sameJSON compares two encodings without regard to white space and the order of keys.
func sameJSON(t *testing.T, what string, got []byte, want string) {
	t.Helper()
	var canonical [2]bytes.Buffer
	for i, text := range []string{string(got), want} {
		var value any
		if err := json.NewDecoder(strings.NewReader(text)).Decode(&value); err != nil {
			t.Fatalf("%s: %v in %s", what, err, text)
		}
		must.OK(t, json.NewEncoder(&canonical[i]).Encode(value))
	}
	if canonical[0].String() != canonical[1].String() {
		t.Errorf("%s gives\n%swant\n%s", what, &canonical[0], &canonical[1])
	}
}
