package chat

import (
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// TestCustomTools offers custom tools as functions, and chooses among them.
func TestCustomTools(t *testing.T) {
	const tools = `"tools":[
		{"type":"custom","custom":{"name":"sql","description":"Query.","format":{"type":"grammar","grammar":{"syntax":"lark","definition":"start: A"}}}},
		{"type":"custom","custom":{"name":"note","format":{"type":"text"}}},
		{"type":"custom","name":"patch","format":{"type":"grammar","syntax":"lark","definition":"start: B"}},
		{"type":"function","function":{"name":"f"}}]`
	for choice, want := range map[string]string{
		`"auto"`: "sql note patch f",
		`{"type":"custom","custom":{"name":"note"}}`: "note",
		`{"type":"custom","name":"patch"}`:           "patch",
		`{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"custom","custom":{"name":"sql"}},{"type":"function","function":{"name":"f"}}]}}`: "sql f",
		`{"type":"allowed_tools","mode":"auto","tools":[{"type":"custom","name":"sql"}]}`:                                                                              "sql",
	} {
		r := mustDecode(t, withFields(tools+`,"tool_choice":`+choice))
		p, err := r.Plan(prompt.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, tool := range p.Thread.DynamicTools {
			names = append(names, tool.Name)
			grammar := map[string]string{"sql": "start: A", "patch": "start: B"}[tool.Name]
			if !strings.Contains(tool.Description, grammar) || tool.Name != "f" && string(tool.InputSchema) != string(prompt.CustomSchema) {
				t.Errorf("%+v", tool)
			}
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: offered %s, want %s", choice, got, want)
		}
	}
}

// TestCustomCallsInHistory gives the model back what it wrote, in whichever form the call comes.
func TestCustomCallsInHistory(t *testing.T) {
	const tool = `,"tools":[{"type":"custom","name":"patch"}]`
	for call, more := range map[string]string{
		`"type":"custom","custom":{"name":"patch","input":"a\"b"}`:                            "",
		`"type":"function","function":{"name":"patch","arguments":"a\"b"}`:                    tool,
		`"type":"function","function":{"name":"patch","arguments":"{\"input\":\"a\\\"b\"}"}`:  tool,
		`"type":"function","function":{"name":"patch","arguments":"{\"input\":\"a\\\"b\"} "}`: "",
	} {
		r := mustDecode(t, `{"model":"m","messages":[{"role":"assistant","tool_calls":[{"id":"c",`+call+`}]},{"role":"tool","tool_call_id":"c","content":"done"}]`+more+`}`)
		if got := strings.TrimSpace(r.Messages[0].Calls[0].Arguments.Text()); got != `{"input":"a\"b"}` {
			t.Errorf("%s: %s", call, got)
		}
	}
}

func TestCustomToolsRefused(t *testing.T) {
	for tool, param := range map[string]string{
		`{"type":"custom"}`:                                                                "tools[0].custom",
		`{"type":"custom","custom":{"name":"a b"}}`:                                        "tools[0].custom.name",
		`{"type":"custom","custom":{"name":"p","format":{"type":"xml"}}}`:                  "tools[0].custom.format.type",
		`{"type":"custom","custom":{"name":"p","format":{"type":"grammar"}}}`:              "tools[0].custom.format.grammar",
		`{"type":"custom","custom":{"name":"p","format":{"type":"grammar","grammar":{}}}}`: "tools[0].custom.format.grammar.definition",
		`{"type":"custom","name":"p","format":{"type":"grammar"}}`:                         "tools[0].format.definition",
		`{"type":"custom","name":"p"},{"type":"function","function":{"name":"p"}}`:         "tools[1].function.name",
		`{"type":"custom","custom":{"name":"p","description":1}}`:                          "tools[0].custom.description",
	} {
		_, err := Decode([]byte(withFields(`"tools":[` + tool + `]`)))
		if err == nil || err.Param != param || err.Type != apierror.TypeInvalidRequest {
			t.Errorf("%s: %v", tool, err)
		}
	}
	const called = `{"role":"assistant","tool_calls":[{"id":"c","type":"custom","custom":%}]}`
	for custom, param := range map[string]string{`{"input":"x"}`: "name", `{"name":"p"}`: "input"} {
		_, err := Decode([]byte(withMessages(strings.Replace(called, "%", custom, 1))))
		if err == nil || err.Param != "messages[0].tool_calls[0].custom."+param {
			t.Errorf("%s: %v", custom, err)
		}
	}
}

// TestCustomCalls encodes calls of custom tools, streamed and whole.
func TestCustomCalls(t *testing.T) {
	meta := testMeta
	meta.Forms = map[string]ToolForm{"sql": customForm, "patch": textForm}
	outs := []turn.Output{
		callOut(0, "a", "sql", `{"input":"SELECT 1"}`), callOut(1, "b", "patch", `{"input":"*** Begin"}`),
		callOut(2, "c", "f", `{}`), finishOut(turn.FinishToolCalls),
	}
	var deltas []string
	for _, frame := range chunks(t, meta, outs) {
		_, delta, _ := strings.Cut(frame, `"delta":`)
		delta, _, _ = strings.Cut(delta, `,"finish_reason"`)
		deltas = append(deltas, delta)
	}
	want := []string{
		`{"role":"assistant","content":null}`,
		`{"tool_calls":[{"index":0,"id":"a","type":"custom","custom":{"name":"sql","input":""}}]}`,
		`{"tool_calls":[{"index":0,"custom":{"input":"SELECT 1"}}]}`,
		`{"tool_calls":[{"index":1,"id":"b","type":"function","function":{"name":"patch","arguments":""}}]}`,
		`{"tool_calls":[{"index":1,"function":{"arguments":"*** Begin"}}]}`,
		`{"tool_calls":[{"index":2,"id":"c","type":"function","function":{"name":"f","arguments":""}}]}`,
		`{"tool_calls":[{"index":2,"function":{"arguments":"{}"}}]}`,
		`{}`,
	}
	if got := strings.Join(deltas, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("got\n%s", got)
	}
	b := newBody(meta)
	for _, out := range outs {
		_ = b.Write(0, out)
	}
	const calls = `"tool_calls":[{"id":"a","type":"custom","custom":{"name":"sql","input":"SELECT 1"}},` +
		`{"id":"b","type":"function","function":{"name":"patch","arguments":"*** Begin"}},` +
		`{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]`
	if body := string(b.JSON()); !strings.Contains(body, calls) {
		t.Errorf("got %s", body)
	}
}
