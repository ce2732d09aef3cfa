package messages

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// used returns a message with a call and one with its result.
func used(id, name, input, result string) string {
	return fmt.Sprintf(`{"role":"assistant","content":[{"type":"tool_use","id":%q,"name":%q,"input":%s}]},`+
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":%q,"content":%q}]}`, id, name, input, id, result)
}

// clearEdit is the beginning of an edit.
const clearEdit = `{"type":"clear_tool_uses_20250919"`

func managed(messages, edits, more string) string {
	return ask(messages, `"context_management":{"edits":[`+edits+`]}`+more)
}

// left returns what the model is given: the inputs and results of tools, and the reasoning.
func left(r *Request) string {
	var all []string
	for _, m := range r.Messages {
		for _, c := range m.Calls {
			all = append(all, c.Name+c.Arguments.Text())
		}
		switch {
		case m.Role == prompt.RoleItem:
			all = append(all, "thinking")
		case m.Role == prompt.RoleTool && string(m.Text) == string(clearedResult):
			all = append(all, "-")
		case m.Role == prompt.RoleTool || m.Role == prompt.RoleUser && m.Text != nil:
			for p := range m.Parts() {
				all = append(all, p.Text.Text())
			}
		}
	}
	return strings.Join(all, " ")
}

func done(r *Request) string {
	if r.management == nil {
		return "nil"
	}
	text, _ := json.Marshal(r.management.Applied)
	return string(text)
}

// TestContextEdits: what is left of a conversation, and what the answer says of it.
func TestContextEdits(t *testing.T) {
	long := strings.Repeat("word ", 800) // 1,000 tokens by the estimate
	uses := `{"role":"user","content":"q"},` + used("a", "f", `{"n":1}`, "A") + "," + used("b", "g", `{"n":2}`, "B") + "," + used("c", "f", `{"n":3}`, "C")
	longUses := `{"role":"user","content":"q"},` + used("a", "f", `{"n":1}`, long) + "," + used("b", "f", `{"n":2}`, long) + "," + used("c", "f", `{"n":3}`, "C")
	const thought = `{"type":"thinking","thinking":"hm","signature":"codex-1.rs_1.enc"}`
	thinking := func(id string) string {
		return strings.Replace(used(id, "f", `{}`, "R"), `"content":[`, `"content":[`+thought+`,`, 1)
	}
	turns := `{"role":"user","content":"q"},` + thinking("a") + `,` + thinking("b") + `,{"role":"assistant","content":"a"},{"role":"user","content":"r"},` + thinking("c") +
		`,{"role":"assistant","content":"b"},{"role":"user","content":"s"},{"role":"assistant","content":[` + thought + `,{"type":"text","text":"a"}]},{"role":"user","content":"t"}`
	const clear = clearEdit
	for name, c := range map[string]struct{ body, left, done string }{
		"no field":      {ask(uses, ""), `q f{"n":1} A g{"n":2} B f{"n":3} C`, `nil`},
		"null":          {ask(uses, `"context_management":null`), `q f{"n":1} A g{"n":2} B f{"n":3} C`, `nil`},
		"no edits":      {ask(uses, `"context_management":{}`), `q f{"n":1} A g{"n":2} B f{"n":3} C`, `[]`},
		"short":         {managed(uses, clear+`}`, ""), `q f{"n":1} A g{"n":2} B f{"n":3} C`, `[]`},
		"many uses":     {managed(uses, clear+`,"trigger":{"type":"tool_uses","value":2},"keep":{"type":"tool_uses","value":1}}`, ""), `q f{"n":1} - g{"n":2} - f{"n":3} C`, `[{"type":"clear_tool_uses_20250919","cleared_tool_uses":2,"cleared_input_tokens":0}]`},
		"not so many":   {managed(uses, clear+`,"trigger":{"type":"tool_uses","value":3},"keep":{"type":"tool_uses","value":0}}`, ""), `q f{"n":1} A g{"n":2} B f{"n":3} C`, `[]`},
		"kept":          {managed(uses, clear+`,"trigger":{"type":"tool_uses","value":1}}`, ""), `q f{"n":1} A g{"n":2} B f{"n":3} C`, `[]`},
		"tokens":        {managed(longUses, clear+`,"trigger":{"type":"input_tokens","value":1500},"keep":{"type":"tool_uses","value":1}}`, ""), `q f{"n":1} - f{"n":2} ` + long + ` f{"n":3} C`, `[{"type":"clear_tool_uses_20250919","cleared_tool_uses":1,"cleared_input_tokens":977}]`},
		"fewer tokens":  {managed(longUses, clear+`,"trigger":{"type":"input_tokens","value":2500},"keep":{"type":"tool_uses","value":1}}`, ""), `q f{"n":1} ` + long + ` f{"n":2} ` + long + ` f{"n":3} C`, `[]`},
		"only uses":     {managed(strings.ReplaceAll(longUses, long, strings.Repeat(long, 60)), clear+`,"trigger":{"type":"tool_uses","value":3},"keep":{"type":"tool_uses","value":0}}`, ""), `q f{"n":1} ` + strings.Repeat(long, 60) + ` f{"n":2} ` + strings.Repeat(long, 60) + ` f{"n":3} C`, `[]`},
		"the default":   {managed(strings.ReplaceAll(longUses, long, strings.Repeat(long, 60)), clear+`,"keep":{"type":"tool_uses","value":0}}`, ""), `q f{"n":1} - f{"n":2} - f{"n":3} C`, `[{"type":"clear_tool_uses_20250919","cleared_tool_uses":2,"cleared_input_tokens":119954}]`},
		"enough":        {managed(longUses, clear+`,"trigger":{"type":"input_tokens","value":1},"keep":{"type":"tool_uses","value":0},"clear_at_least":{"type":"input_tokens","value":1900}}`, ""), `q f{"n":1} - f{"n":2} - f{"n":3} C`, `[{"type":"clear_tool_uses_20250919","cleared_tool_uses":2,"cleared_input_tokens":1954}]`},
		"too little":    {managed(longUses, clear+`,"trigger":{"type":"input_tokens","value":1},"clear_at_least":{"type":"input_tokens","value":5000},"keep":{"type":"tool_uses","value":0}}`, ""), `q f{"n":1} ` + long + ` f{"n":2} ` + long + ` f{"n":3} C`, `[]`},
		"excluded":      {managed(uses, clear+`,"trigger":{"type":"tool_uses","value":1},"keep":{"type":"tool_uses","value":0},"exclude_tools":["f"]}`, ""), `q f{"n":1} A g{"n":2} B f{"n":3} C`, `[]`},
		"others":        {managed(uses, clear+`,"trigger":{"type":"tool_uses","value":1},"keep":{"type":"tool_uses","value":0},"exclude_tools":["g"]}`, ""), `q f{"n":1} - g{"n":2} B f{"n":3} -`, `[{"type":"clear_tool_uses_20250919","cleared_tool_uses":2,"cleared_input_tokens":0}]`},
		"all inputs":    {managed(uses, clear+`,"trigger":{"type":"tool_uses","value":2},"keep":{"type":"tool_uses","value":1},"clear_tool_inputs":true}`, ""), `q f{} - g{} - f{"n":3} C`, `[{"type":"clear_tool_uses_20250919","cleared_tool_uses":2,"cleared_input_tokens":4}]`},
		"no inputs":     {managed(uses, clear+`,"trigger":{"type":"tool_uses","value":2},"keep":{"type":"tool_uses","value":1},"clear_tool_inputs":false}`, ""), `q f{"n":1} - g{"n":2} - f{"n":3} C`, `[{"type":"clear_tool_uses_20250919","cleared_tool_uses":2,"cleared_input_tokens":0}]`},
		"inputs of one": {managed(uses, clear+`,"trigger":{"type":"tool_uses","value":2},"keep":{"type":"tool_uses","value":1},"clear_tool_inputs":["g"]}`, ""), `q f{"n":1} - g{} - f{"n":3} C`, `[{"type":"clear_tool_uses_20250919","cleared_tool_uses":2,"cleared_input_tokens":2}]`},
		"deferred": {managed(uses, clear+`,"trigger":{"type":"tool_uses","value":1},"keep":{"type":"tool_uses","value":0},"exclude_tools":["f"],"clear_tool_inputs":["g"]}`,
			`,"tools":[{"name":"f","input_schema":{},"defer_loading":true},{"name":"g","input_schema":{},"defer_loading":true}]`),
			`q call_tool{"name":"f","arguments":{"n":1}} A call_tool{"name":"g","arguments":{"n":2}} B call_tool{"name":"f","arguments":{"n":3}} C`, `[]`},
		"deferred inputs": {managed(uses, clear+`,"trigger":{"type":"tool_uses","value":1},"keep":{"type":"tool_uses","value":0},"exclude_tools":["g"],"clear_tool_inputs":["f"]}`,
			`,"tools":[{"name":"f","input_schema":{},"defer_loading":true},{"name":"g","input_schema":{},"defer_loading":true}]`),
			`q call_tool{"name":"f","arguments":{}} - call_tool{"name":"g","arguments":{"n":2}} B call_tool{"name":"f","arguments":{}} -`, `[{"type":"clear_tool_uses_20250919","cleared_tool_uses":2,"cleared_input_tokens":2}]`},

		"all thinking":  {managed(turns, `{"type":"clear_thinking_20251015","keep":"all"}`, ""), `q thinking f{} R thinking f{} R r thinking f{} R s thinking t`, `[]`},
		"the last turn": {managed(turns, `{"type":"clear_thinking_20251015"}`, ""), `q f{} R f{} R r f{} R s thinking t`, `[{"type":"clear_thinking_20251015","cleared_thinking_turns":2,"cleared_input_tokens":63}]`},
		"two turns":     {managed(turns, `{"type":"clear_thinking_20251015","keep":{"type":"thinking_turns","value":2}}`, ""), `q f{} R f{} R r thinking f{} R s thinking t`, `[{"type":"clear_thinking_20251015","cleared_thinking_turns":1,"cleared_input_tokens":42}]`},
		"three turns":   {managed(turns, `{"type":"clear_thinking_20251015","keep":{"type":"thinking_turns","value":3}}`, ""), `q thinking f{} R thinking f{} R r thinking f{} R s thinking t`, `[]`},
		"a reminder beside a result": {managed(`{"role":"user","content":"q"},`+strings.Replace(thinking("a"), `"content":"R"}`, `"content":"R"},{"type":"text","text":"n"}`, 1)+`,`+thinking("b"), `{"type":"clear_thinking_20251015"}`, ""),
			`q thinking f{} R thinking f{} R`, `[]`},
		"both": {managed(turns, `{"type":"clear_thinking_20251015"},`+clear+`,"trigger":{"type":"tool_uses","value":2},"keep":{"type":"tool_uses","value":1}}`, ""), `q f{} - f{} - r f{} R s thinking t`,
			`[{"type":"clear_thinking_20251015","cleared_thinking_turns":2,"cleared_input_tokens":63},{"type":"clear_tool_uses_20250919","cleared_tool_uses":2,"cleared_input_tokens":0}]`},
	} {
		r, apiErr := Decode([]byte(c.body))
		if apiErr != nil {
			t.Errorf("%s: %v", name, apiErr)
			continue
		}
		if got := left(r); got != c.left {
			t.Errorf("%s: left is\n%s\nwant\n%s", name, got, c.left)
		}
		if got := done(r); got != c.done {
			t.Errorf("%s: done is\n%s\nwant\n%s", name, got, c.done)
		}
	}
}

// TestContextEditsKeepPrefix lets conversations grow by a tool use at a time. Between two edits, each prompt has to begin with
// the one before: then it is in the provider's cache, and the thread goes on.
func TestContextEditsKeepPrefix(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		edit := fmt.Sprintf(`{"type":"clear_tool_uses_20250919","trigger":{"type":"input_tokens","value":%d},"keep":{"type":"tool_uses","value":%d},"clear_at_least":{"type":"input_tokens","value":%d},"clear_tool_inputs":%t}`,
			4000+r.IntN(1000), r.IntN(4), r.IntN(1000), r.IntN(2) == 0)
		if r.IntN(3) == 0 {
			edit = fmt.Sprintf(`{"type":"clear_tool_uses_20250919","trigger":{"type":"tool_uses","value":%d},"keep":{"type":"tool_uses","value":%d}}`, 5+r.IntN(5), r.IntN(4))
		}
		conversation := `{"role":"user","content":"q"}`
		before, cleared, edits := "", 0, 0
		for n := range 60 {
			conversation += "," + used(fmt.Sprint("c", n), "f", fmt.Sprintf(`{"n":%d}`, n), strings.Repeat("word ", r.IntN(400)))
			body := managed(conversation, edit, "")
			req, apiErr := Decode([]byte(body))
			if apiErr != nil {
				t.Fatal(apiErr)
			}
			now := given(t, body)
			if uses := usesCleared(req); uses > cleared {
				cleared, edits = uses, edits+1
			} else if uses < cleared || !strings.HasPrefix(now, before) {
				t.Fatalf("seed %d: use %d changed what came before, %d cleared, then %d:\n%s\n%s", seed, n, cleared, uses, before, now)
			}
			before = now
		}
		if edits == 0 || edits > 20 {
			t.Errorf("seed %d: %d edits of 60 requests, %s", seed, edits, edit)
		}
	}
}

func usesCleared(r *Request) (n int) {
	if len(r.management.Applied) > 0 {
		_, _ = fmt.Sscanf(string(r.management.Applied[0]), `{"type":"clear_tool_uses_20250919","cleared_tool_uses":%d`, &n)
	}
	return n
}

// TestContextManagementAnswer: messages, their streams and counts say what was edited, if the request has the field.
func TestContextManagementAnswer(t *testing.T) {
	uses := `{"role":"user","content":"q"},` + used("a", "f", `{"n":1}`, strings.Repeat("word ", 800))
	const edit = `{"type":"clear_tool_uses_20250919","trigger":{"type":"tool_uses","value":1},"keep":{"type":"tool_uses","value":0}}`
	for name, c := range map[string]struct{ body, answer, count string }{
		"no field": {ask(uses, ""), "", `{"input_tokens":1020}`},
		"nothing":  {managed(uses, edit, ""), `{"applied_edits":[]}`, `{"input_tokens":1020,"context_management":{"original_input_tokens":1020}}`},
		"a use": {managed(uses, strings.Replace(edit, `"value":1`, `"value":0`, 1), ""), `{"applied_edits":[{"type":"clear_tool_uses_20250919","cleared_tool_uses":1,"cleared_input_tokens":977}]}`,
			`{"input_tokens":42,"context_management":{"original_input_tokens":1019}}`},
	} {
		r, apiErr := Decode([]byte(c.body))
		if apiErr != nil {
			t.Fatalf("%s: %v", name, apiErr)
		}
		meta := r.Meta("msg_1")
		events := map[string]wirejson.Value{}
		e := begun(meta, func(event string, data []byte) error {
			events[event] = append(wirejson.Value(nil), data...)
			return nil
		})
		whole := NewEncoder(meta)
		whole.Begin(nil)
		for _, out := range []turn.Output{said("a"), finished(turn.FinishStop)} {
			must.OK(t, e.Write(0, out))
			must.OK(t, whole.Write(0, out))
		}
		var start wirejson.Value
		events["message_start"].Pick(wirejson.Into("message", &start))
		for where, v := range map[string]wirejson.Value{"message_start": start, "message_delta": events["message_delta"], "the message": whole.JSON()} {
			var got wirejson.Value
			if v.Pick(wirejson.Into("context_management", &got)); string(got) != c.answer {
				t.Errorf("%s: %s has %s, want %s", name, where, got, c.answer)
			}
		}
		if got := string(r.tokenCount(r.EstimateTokens(0))); got != c.count {
			t.Errorf("%s: the count is %s, want %s", name, got, c.count)
		}
	}
}

// TestClearedImage: an image in a cleared result need not be fetched.
func TestClearedImage(t *testing.T) {
	const image = `{"type":"image","source":{"type":"url","url":"https://a.example/x.png"}}`
	uses := `{"role":"user","content":"q"},` + strings.Replace(used("a", "f", `{}`, "R"), `"R"`, `[`+image+`]`, 1)
	body := managed(uses, `{"type":"clear_tool_uses_20250919","trigger":{"type":"input_tokens","value":1},"keep":{"type":"tool_uses","value":0}}`, "")
	r, apiErr := Decode([]byte(body))
	if apiErr != nil {
		t.Fatal(apiErr)
	}
	if _, apiErr := r.Plan(prompt.Options{}); apiErr != nil {
		t.Error(apiErr)
	}
}
