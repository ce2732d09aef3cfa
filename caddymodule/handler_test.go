package caddymodule

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/option"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// Models give the expected JSON.
func TestModelDirectives(t *testing.T) {
	checkOptions(t, map[string]string{
		"model fast":                         `{"models":[{"id":"fast"}]}`,
		"model fast gpt-5":                   `{"models":[{"id":"fast","model":"gpt-5"}]}`,
		"model fast gpt-5 low\nmodel g":      `{"models":[{"id":"fast","model":"gpt-5","effort":"low"},{"id":"g"}]}`,
		"model fast gpt-5 low force":         `{"models":[{"id":"fast","model":"gpt-5","effort":"low","force_effort":true}]}`,
		"reasoning off\nmodel a b/c minimal": `{"reasoning":false,"models":[{"id":"a","model":"b/c","effort":"minimal"}]}`,
	})
}

// TestModelPlaceholders checks that placeholders in models are resolved.
func TestModelPlaceholders(t *testing.T) {
	t.Setenv("TEST_MODEL", "gpt-5")
	for model, want := range map[prompt.Alias]prompt.Alias{
		{ID: "fast", Model: "{env.TEST_MODEL}"}:    {ID: "fast", Model: "gpt-5"},
		{ID: "{env.TEST_MODEL}"}:                   {ID: "gpt-5", Model: "gpt-5"},
		{ID: "{env.TEST_MODEL}-{env.TEST_MODEL}"}:  {ID: "gpt-5-gpt-5", Model: "gpt-5-gpt-5"},
		{ID: "other", Model: "x-{env.TEST_MODEL}"}: {ID: "other", Model: "x-gpt-5"},
	} {
		h := &Handler{Models: []prompt.Alias{model}}
		if got, err := h.newAliases(caddy.NewReplacer()); err != nil || !slices.Equal(got, []prompt.Alias{want}) {
			t.Errorf("%+v: %+v, %v", model, got, err)
		}
	}
}

// TestModelEfforts checks that an alias may have each effort that a request may name.
func TestModelEfforts(t *testing.T) {
	for _, o := range option.Of(new(prompt.Alias)) {
		if o.Name == "effort" && o.Syntax != strings.Join(codexrpc.Efforts, "|") {
			t.Errorf("the efforts of an alias are %s, those of a request %q", o.Syntax, codexrpc.Efforts)
		}
	}
}

// Options of tool calls give the expected JSON. [TestEachOption] checks those that are a word.
func TestToolDirectives(t *testing.T) {
	checkOptions(t, map[string]string{
		"stop_after_tools burst 1s":                       `{"stop_after_tools":"burst","stop_after_tools_grace":1000000000}`,
		"stop_after_tools burst 0":                        `{"stop_after_tools":"burst","stop_after_tools_grace":0}`,
		"stop_after_tools first 0s":                       `{"stop_after_tools":"first","stop_after_tools_grace":0}`,
		"stop_after_tools first 1s":                       `{"stop_after_tools":"first","stop_after_tools_grace":1000000000}`,
		"tool_block_max 0":                                `{}`,
		"tool_block_max 3":                                `{"tool_block_max":3}`,
		"tool_block_delimiter \"\n\n\"":                   `{"tool_block_delimiter":"\n\n"}`,
		"tool_block_delimiter <hr>":                       `{"tool_block_delimiter":"<hr>"}`,
		"output_mode obsidian-xml\nxml_escape entities":   `{"output_mode":"obsidian-xml","xml_escape":"entities"}`,
		"tool_block_max 1\nparallel_tool_calls off":       `{"tool_block_max":1,"parallel_tool_calls":false}`,
		"textual_tools off\nsuppress_tail_after_tools on": `{"textual_tools":"off","suppress_tail_after_tools":true}`,
	})
}

func TestToolDefaults(t *testing.T) {
	h := provision(t, new(Handler)).handlers[0]
	sameJSON(t, "an empty configuration", encode(t, h.ToolOptions), `{
		"output_mode": "auto", "stop_after_tools": "burst", "suppress_tail_after_tools": true,
		"textual_tools": "auto", "parallel_tool_calls": true, "xml_escape": "literal"
	}`)
	if grace := time.Duration(*h.StopAfterToolsGrace); grace != turn.DefaultGrace {
		t.Errorf("stop_after_tools_grace is %s", grace)
	}
}

// exampleFiles returns the paths of all Caddyfiles of the examples.
func exampleFiles(t *testing.T) []string {
	t.Helper()
	files := []string{"../Caddyfile.example"}
	for _, pattern := range []string{"../examples/*.Caddyfile", "../examples/*/Caddyfile", "../examples/*/*.Caddyfile"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatal(pattern, err)
		}
		files = append(files, found...)
	}
	return files
}

// TestExamples: every example is valid, and formatted as by caddy fmt.
func TestExamples(t *testing.T) {
	for _, name := range []string{"ALICE_KEY", "BOB_KEY", "CLIENT_KEY", "REDIS_PASSWORD"} {
		t.Setenv(name, name)
	}
	t.Setenv("TURN_LOG", filepath.Join(t.TempDir(), "turns.log"))
	t.Setenv("KEYS", writeKeys(t, nil))
	for _, file := range exampleFiles(t) {
		adapted, warnings, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(readText(t, file)), nil)
		if err != nil || len(warnings) > 0 {
			t.Errorf("%s: %v %v", file, warnings, err)
			continue
		}
		var config caddy.Config
		if err := json.Unmarshal(adapted, &config); err != nil {
			t.Fatal(err)
		}
		if err := caddy.Validate(&config); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// FuzzDirective parses any text as the rest of a directive. What is accepted survives the
// way through JSON, and what is not is refused with its place.
func FuzzDirective(f *testing.F) {
	f.Fuzz(func(t *testing.T, rest string) {
		tokens, err := caddyfile.Tokenize([]byte("codex "+rest), "Fuzzfile")
		if err != nil {
			return // no directive sees it
		}
		h := new(Handler)
		if err := h.UnmarshalCaddyfile(caddyfile.NewDispenser(tokens)); err != nil {
			if !strings.Contains(err.Error(), "at Fuzzfile:") {
				t.Errorf("no place: %v", err)
			}
			return
		}
		encoded := encode(t, h)
		back := new(Handler)
		if err := caddy.StrictUnmarshalJSON(encoded, back); err != nil {
			t.Fatalf("%v in %s", err, encoded)
		}
		if !reflect.DeepEqual(h, back) || !bytes.Equal(encoded, encode(t, back)) {
			t.Errorf("%+v becomes %+v by way of %s", h, back, encoded)
		}
		_ = h.complete() // may refuse, but not panic
	})
}
