package caddymodule

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-codex/caddy-codex/caddymodule/storemodules"
	"github.com/caddy-codex/caddy-codex/internal/option"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// An error has the file and the line, from the directive itself and through the adapter.
func TestDirectiveErrors(t *testing.T) {
	const wrongCount = "wrong argument count or unexpected line ending after "
	for name, test := range map[string]struct {
		directive string
		line      int
		want      string
	}{
		"argument after the directive": {"codex now", 1, wrongCount + "'now'"},
		"argument before the block":    {"codex now {\n}", 1, wrongCount + "'now'"},
		"unknown option":               {"codex {\nmax_body 1MB\nno_such_option 1\n}", 3, `unknown option "no_such_option"`},
		"option in capitals":           {"codex {\nMax_Body 1MB\n}", 2, `unknown option "Max_Body"; did you mean max_body?`},
		"misspelt option":              {"codex {\nmax_queu 1\n}", 2, `unknown option "max_queu"; did you mean max_queue?`},
		"misspelt, by a hyphen":        {"codex {\napi-key k\n}", 2, `unknown option "api-key"; did you mean api_key?`},
		"misspelt in conversations":    {"codex {\napp_server {\nconversations {\nparket 2m\n}\n}\n}", 4, `unknown option "parket"; did you mean parked?`},
		"unknown option of app_server": {"codex {\napp_server {\n\nno_such_option\n}\n}", 4, `unknown option "no_such_option"`},
		"option of app_server outside": {"codex {\nhome /srv\n}", 2, `unknown option "home"`},
		"option outside in app_server": {"codex {\napp_server {\napi_key k\n}\n}", 3, `unknown option "api_key"`},
		"block of an option":           {"codex {\nmax_concurrent 1 {\nb c\n}\n}", 2, `unknown option "{"`},
		"text behind the inner block":  {"codex {\napp_server {\nhome /srv\n} x\n}", 4, `"x"`},
		"text behind an empty block":   {"codex {\napp_server {\n} x\n}", 3, wrongCount + "'x'"},

		"command twice":       {"codex {\napp_server {\ncommand a\ncommand b\n}\n}", 4, "command is given twice"},
		"conversations maybe": {"codex {\napp_server {\nconversations maybe\n}\n}", 3, `conversations: "maybe" must be one of on, off`},
		"variable twice":      {"codex {\napp_server {\nenv A 1\nenv B 1\nenv A 2\n}\n}", 5, "env A is given twice"},
		"two commands":        {"codex {\napp_server a {\ncommand b\n}\n}", 3, "the command is given twice: beside app_server and in its block"},

		"an empty admin key": {"codex {\npage on\nadmin_key \"\"\n}", 3, "admin_key takes one key, which must not be empty"},

		"store twice":            {"codex {\nstore off\nstore off\n}", 3, "store is given twice"},
		"store of no kind":       {"codex {\nstore\n}", 2, wrongCount + "'store'"},
		"store elsewhere":        {"codex {\nstore storage\n}", 2, `store: "storage" must be one of disk, memory, off, redis`},
		"store redis without":    {"codex {\nstore redis\n}", 2, "store redis needs the URL of the server"},
		"store memory, a size":   {"codex {\nstore memory 1MiB\n}", 2, `store memory takes no "1MiB" here`},
		"store, another option":  {"codex {\nstore memory {\ncount 1\n}\n}", 3, `unknown option "count"`},
		"store, its type inside": {"codex {\nstore memory {\ntype disk\n}\n}", 3, `unknown option "type"`},
		"a remote app-server":    {"codex {\napp_server {\nconnect wss://codex.example\ntoken x\n}\n}", 3, "an app-server elsewhere is no longer supported: run a Caddy with this module beside it, and `reverse_proxy`"},
		"start_timeout":          {"codex {\napp_server {\nstart_timeout 1m\n}\n}", 3, "a start that takes more than 10 seconds is tried again"},
		"stop_timeout":           {"codex {\napp_server {\nstop_timeout 1m\n}\n}", 3, "a process that has not stopped after 5 seconds is killed"},
		"provider_timeout":       {"codex {\napp_server {\nprovider_timeout 1s\n}\n}", 3, "websocket_connect_timeout_ms there"},
		"provider_retries":       {"codex {\napp_server {\nprovider_retries 0\n}\n}", 3, "request_max_retries"},
		"dir":                    {"codex {\napp_server {\ndir /srv\n}\n}", 3, "let the command be a script"},
		"spares":                 {"codex {\napp_server {\nconversations {\nspares 0\n}\n}\n}", 4, "with `conversations off`"},
		"max_body_memory":        {"codex {\nmax_body_memory 1GiB\n}", 2, "set max_body"},
		"an authority of Redis":  {"codex {\nstore redis rediss://h {\nca redis.crt\n}\n}", 3, "add the authority to those of the system"},
		"response_store":         {"codex {\nresponse_store storage 1h\n}", 2, "`store redis <url>` for several instead of `response_store storage`"},

		"command without a program": {"codex {\napp_server {\ncommand\n}\n}", 3, wrongCount + "'command'"},
		"env without a value":       {"codex {\napp_server {\nenv A\n}\n}", 3, "env takes a name and a value"},
		"env without anything":      {"codex {\napp_server {\nenv\n}\n}", 3, "env takes a name and a value"},
		"api_key without a key":     {"codex {\napi_key\n}", 2, "api_key takes a key"},

		"env and more":     {"codex {\napp_server {\nenv A b c\n}\n}", 3, "env takes a name and a value"},
		"api_key and more": {"codex {\napi_key a b c\n}", 2, "api_key takes a key"},

		"record":                 {"codex {\nrecord\n}", 2, wrongCount + "'record'"},
		"record of no kind":      {"codex {\nrecord some\n}", 2, `record: "some" must be one of off, errors, all`},
		"record and more":        {"codex {\nrecord all texts\n}", 2, wrongCount + "'texts'"},
		"record, texts and more": {"codex {\nrecord all {\ntexts on\n}\n}", 3, wrongCount + "'on'"},
		"record, a size of none": {"codex {\nrecord all {\ndirectory /x 0\n}\n}", 3, `directory: "0" is not a size above zero`},
		"record, its mode again": {"codex {\nrecord all {\nmode off\n}\n}", 3, `unknown option "mode"`},
		"cors twice":             {"codex {\ncors *\ncors off\n}", 3, "cors is given twice"},
		"cors without an origin": {"codex {\ncors\n}", 2, wrongCount + "'cors'"},
		"cors off and on":        {"codex {\ncors off *\n}", 2, "off stands alone"},
		"hosts without a name":   {"codex {\nhosts\n}", 2, wrongCount + "'hosts'"},
		"hosts twice":            {"codex {\nhosts a\nhosts b\n}", 3, "hosts is given twice"},

		"pool":                    {"codex {\npool\n}", 2, wrongCount + "'pool'"},
		"pool of no kind":         {"codex {\npool most\n}", 2, `"most" must be one of`},
		"pool spread 2":           {"codex {\npool spread 2\n}", 2, "only the policy reserve"},
		"pool reserve 0":          {"codex {\npool reserve 0\n}", 2, "above zero"},
		"pool and more":           {"codex {\npool reserve 1 2\n}", 2, wrongCount + "'2'"},
		"pool twice":              {"codex {\npool spread\npool spread\n}", 3, "pool is given twice"},
		"wait of nothing":         {"codex {\nmax_queue 1 0s\n}", 2, `"0s" is not a duration`},
		"wait without a queue":    {"codex {\nmax_queue 0 1s\n}", 2, "nobody waits in a queue of 0"},
		"model without an id":     {"codex {\nmodel\n}", 2, wrongCount + "'model'"},
		"model twice":             {"codex {\nmodel a b\nmodel a c\n}", 3, "model a is given twice"},
		"model of no effort":      {"codex {\nmodel a b tiny\n}", 2, `"tiny" must be one of none, minimal,`},
		"model, force as effort":  {"codex {\nmodel a b force\n}", 2, `"force" must be one of none, minimal,`},
		"model, no such word":     {"codex {\nmodel a b low more\n}", 2, `"more" must be one of force`},
		"model and more":          {"codex {\nmodel a b low force x\n}", 2, wrongCount + "'x'"},
		"grace without a stop":    {"codex {\nstop_after_tools off 1s\n}", 2, "off has no grace"},
		"grace that is none":      {"codex {\nstop_after_tools burst soon\n}", 2, `"soon" is not a duration from 0 up`},
		"pattern without a name":  {"codex {\ntextual_pattern\n}", 2, wrongCount + "'textual_pattern'"},
		"no such pattern":         {"codex {\ntextual_pattern use_tool\n}", 2, "module not registered: http.codex.patterns.use_tool"},
		"the former pattern":      {"codex {\ntextual_pattern tool_call\n}", 2, `tool_call is no longer built in: write a plugin for it, see docs/tool-calls.md, "Other textual forms"`},
		"pattern and more":        {"codex {\ntextual_pattern plain x\n}", 2, wrongCount + "'x'"},
		"pattern with a block":    {"codex {\ntextual_pattern plain {\nword x\n}\n}", 3, wrongCount + "'word'"},
		"option of a pattern":     {"codex {\ntextual_pattern line {\nsize 3\n}\n}", 3, `unknown option "size"`},
		"pattern twice":           {"codex {\ntextual_pattern line\ntextual_pattern line\n}", 3, "textual_pattern line is given twice"},
		"duration without a unit": {"codex {\nidle_timeout 10\n}", 2, `"10" is not a duration`},
	} {
		t.Run(name, func(t *testing.T) {
			err := new(Handler).UnmarshalCaddyfile(caddyfile.NewTestDispenser(test.directive))
			wantError(t, err, test.want, "Testfile", test.line)

			text := ":8080 {\n" + test.directive + "\n}\n"
			_, _, err = caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), map[string]any{"filename": adaptFile})
			wantError(t, err, test.want, adaptFile, test.line+1)
		})
	}
}

// TestEachOption checks that each option may be given once, with as many values as it has; that a
// number is one above zero, or from zero up, and a word one of those that the option takes, as it is.
func TestEachOption(t *testing.T) {
	values := map[string]string{"<n>": "1", "<size>": "1MiB", "<duration>": "1s", "<text>": "x", "<name>": "x"}
	for around, block := range map[string]any{
		"%s": new(Handler), "app_server {\n%s\n}": new(AppServer), "app_server {\nconversations {\n%s\n}\n}": new(Conversations),
		"store memory {\n%s\n}": new(storemodules.Memory), "store disk {\n%s\n}": new(storemodules.Disk), "store redis redis://h {\n%s\n}": new(storemodules.Redis),
	} {
		read := func(line string) (*Handler, error) {
			h := new(Handler)
			return h, h.UnmarshalCaddyfile(caddyfile.NewTestDispenser("codex {\n" + fmt.Sprintf(around, line) + "\n}"))
		}
		options := option.Of(block)
		for _, o := range options {
			if o.LineName != o.Name {
				continue
			}
			words := strings.Split(o.Syntax, "|")
			full := o.Name + " " + cmp.Or(values[words[0]], words[0])
			for _, further := range options {
				if further.LineName == o.Name && further.Name != o.Name {
					full += " " + values[further.Syntax]
				}
			}
			if o.Name == "stop_after_tools" {
				full = o.Name + " burst 1s"
			}
			errors := map[string]string{
				o.Name:               "after '" + o.Name + "'",
				full + " more":       "after 'more'",
				full + "\n" + o.Name: o.Name + " is given twice",
			}
			switch fromZero := []string{"max_queue", "tool_block_max"}; {
			case slices.Contains([]string{"<n>", "<size>", "<duration>"}, words[0]):
				for _, wrong := range []string{"0", "-1", "-1s", "x", "off"} {
					if wrong != words[len(words)-1] && (wrong != "0" || !slices.Contains(fromZero, o.Name)) {
						errors[o.Name+" "+wrong] = o.Name + `: "` + wrong + `" is not a`
					}
				}
			case o.Syntax == "<name>":
				errors[o.Name+` ""`] = o.Name + ": must not be empty"
			case len(words) > 1:
				errors[o.Name+" other"] = o.Name + `: "other" must be one of ` + strings.Join(words, ", ")
				for _, word := range words {
					h, err := read(o.Name + " " + word)
					must.OK(t, err)
					value := cmp.Or(map[string]string{"on|off on": "true", "on|off off": "false"}[o.Syntax+" "+word], `"`+word+`"`)
					if got := string(encode(t, h)); !strings.Contains(got, `"`+o.Name+`":`+value) && (value != "false" || strings.Contains(got, o.Name)) {
						t.Errorf("%s %s is %s", o.Name, word, got)
					}
				}
			}
			for line, want := range errors {
				_, err := read(line)
				wantError(t, err, want, "Testfile", 2+strings.Count(around, "{")+strings.Count(line, "\n"))
			}
		}
	}
}

func wantError(t *testing.T, err error, want, file string, line int) {
	t.Helper()
	where := fmt.Sprintf("at %s:%d", file, line)
	switch {
	case err == nil:
		t.Errorf("it is accepted; want %q", want)
	case !strings.Contains(err.Error(), want):
		t.Errorf("it says %q; want %q", err, want)
	case !strings.HasSuffix(err.Error(), where):
		t.Errorf("it says %q; want it %s", err, where)
	}
}

// Errors do not show a key at a wrong place, since they are logged.
func TestDirectiveErrorsHideKeys(t *testing.T) {
	const secret = "sk-very-secret"
	for _, options := range []string{
		"api_key alice admin " + secret,
		"api_key " + secret + " alice admin",
		"api_key " + secret + " {\n}",
		"api_key " + secret + "\nno_such_option",
		"api_key=" + secret,
		"app_server {\ntoken=" + secret + "\n}",
		"app_server {\nenv KEY=" + secret + "\n}",
		"app_server {\nenv A KEY " + secret + "\n}",
		"app_server {\ntoken bearer " + secret + "\n}",
		"app_server {\ntoken " + secret + " {\n}\n}",
		"app_server {\ntoken " + secret + "\n}",
		"app_server codex {\nconnect ws://a\ntoken " + secret + "\n}",
	} {
		err := new(Handler).UnmarshalCaddyfile(caddyfile.NewTestDispenser("codex {\n" + options + "\n}"))
		if err == nil {
			t.Errorf("%q is accepted", options)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("%q: the error shows the key: %v", options, err)
		}
	}
}
