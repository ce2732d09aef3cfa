package messages

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/seal"
	"github.com/caddy-codex/caddy-codex/internal/test/outputs"
	"github.com/caddy-codex/caddy-codex/internal/test/plancheck"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// FuzzDecode sends any body. What is refused must be refused in Anthropic's shape; what is
// accepted must give a plan that Codex can read.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"model":"claude-x","max_tokens":9,"stream":true,"system":[{"type":"text","text":"x-anthropic-billing-header: a"},{"type":"text","text":"s"}],
		"thinking":{"type":"enabled","budget_tokens":2000,"display":"omitted"},"output_config":{"effort":"max","format":{"type":"json_schema","schema":{"type":"object"}}},
		"tools":[{"name":"f","input_schema":{}},{"name":"X","input_schema":{},"defer_loading":true},{"type":"web_search_20250305","name":"w"}],"tool_choice":{"type":"tool","name":"X"},
		"messages":[{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"codex-1.a.b"},{"type":"tool_use","id":"a","name":"X","input":{}}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"tool_reference","tool_name":"X"}]}]},{"role":"system","content":[{"type":"tool_addition","tool":{"name":"X"}}]}]}`))
	f.Add([]byte(ask(`{"role":"user","content":[{"type":"image","source":{"type":"url","url":"https://a.example/x"}},{"type":"document","title":"T","source":{"type":"content","content":"d"}},{"type":"search_result","title":"T","source":"s","content":[]}]}`, `"stop_sequences":["x"],"temperature":0`)))
	f.Add([]byte(managed(`{"role":"user","content":"q"},`+used("a", "f", `{}`, "r")+`,{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"codex-1.a.b"}]},{"role":"user","content":"r"}`,
		`{"type":"clear_thinking_20251015","keep":{"type":"thinking_turns","value":1}},{"type":"clear_tool_uses_20250919","trigger":{"type":"tool_uses","value":1},"keep":{"type":"tool_uses","value":0},`+
			`"clear_at_least":{"type":"input_tokens","value":0},"exclude_tools":["g"],"clear_tool_inputs":["f"]},{"type":"compact_20260112"}`, "")))
	f.Add([]byte(ask(`{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"compaction","content":"S","encrypted_content":"codex-sealed-1.x"},{"type":"text","text":"a"}]},{"role":"user","content":"r"}`,
		`"compaction":{"type":"summarize","instructions":"Be brief."}`)))
	f.Fuzz(func(t *testing.T, body []byte) {
		given := string(body)
		r, apiErr := Decode(body)
		if string(body) != given {
			t.Fatal("the body was changed")
		}
		if apiErr == nil {
			_ = r.Meta("msg_1")
			_ = r.ImageParam("")
			apiErr = r.OpenSummaries(func(string) ([]byte, error) { return nil, seal.ErrUnreadable })
		}
		if apiErr == nil {
			var p *prompt.Plan
			if p, apiErr = r.Plan(prompt.Options{}); apiErr == nil {
				plancheck.Check(t, p)
				return
			}
		}
		if apiErr.Status != http.StatusBadRequest || apiErr.Type != apierror.TypeInvalidRequest || apiErr.Message == "" {
			t.Fatalf("refused by %+v", apiErr)
		}
		if status, refusal := EncodeError(apiErr, http.Header{}); status != http.StatusBadRequest || !json.Valid(refusal) {
			t.Fatalf("refused by %d %s", status, refusal)
		}
	})
}

// FuzzFold gives a turn any texts: a stream must add up to the body, and what a client sends
// back of a call must be what the model has written.
func FuzzFold(f *testing.F) {
	f.Add(uint64(1), "f", `{"a":1}`, "enc")
	f.Add(uint64(2), "call_tool", `{"name":"X","arguments":{"a":"\ud83d"}}`, "")
	f.Add(uint64(3), "f", "\xff[", "a.b")
	f.Fuzz(func(t *testing.T, seed uint64, name, arguments, encrypted string) {
		if name == "" {
			name = "f"
		}
		outs := outputs.Random(rand.New(rand.NewPCG(seed, 1)), "f", "call_tool")
		outs = append(append([]turn.Output{{Kind: turn.OutputReasoningEnd, ID: "r", Text: encrypted}}, called(99, name, arguments)...), outs...)
		m := checkFold(t, testMeta, outs)
		for _, b := range m.Content {
			if id, content, ok := parseSignature(b.Signature); ok && makeSignature(id, content) != b.Signature {
				t.Fatalf("the signature %q", b.Signature)
			}
		}
		input := wrapUnparsed(arguments)
		if !json.Valid([]byte(input)) && strings.ToValidUTF8(arguments, "") == arguments {
			t.Fatalf("the input %q", input)
		}
		if again := string(unwrapUnparsed([]byte(input))); arguments != "" && strings.TrimSpace(again) != strings.TrimSpace(arguments) && utf8.ValidString(arguments) {
			t.Fatalf("%q came back as %q", arguments, again)
		}
	})
}
