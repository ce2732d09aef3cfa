package aggregator

import (
	"strings"
	"testing"
)

// shapes are the ways to tell of one call f with the arguments {"a":[1,2]}.
func shapes() map[string][]string {
	arguments := `{"a":[1,2]}`
	function := raw(object("name", "f", "arguments", arguments))
	toolCall := raw(object("id", "call_1", "type", "function", "function", function))
	functionCall := object("type", "function_call", "id", "fc_1", "call_id", "call_1", "name", "f",
		"arguments", arguments, "status", "completed")
	response := object("object", "response", "output", []any{raw(functionCall)})
	delta := func(text string) string { return object("function_call", raw(object("arguments", text))) }
	choice := func(delta string) string {
		return object("id", "chatcmpl-1", "object", "chat.completion.chunk",
			"choices", []any{raw(object("index", 0, "delta", raw(delta), "finish_reason", nil))})
	}
	message := object("role", "assistant", "content", nil, "tool_calls", []any{toolCall})
	return map[string][]string{
		"response.* events": {
			itemAdded(0, 0, "fc_1", "call_1", "f"), argumentsDelta(1, 0, "fc_1", `{"a":[1`),
			argumentsDelta(2, 0, "fc_1", `,2]}`), argumentsDone(3, 0, "fc_1", "f", arguments),
			itemDone(4, 0, "fc_1", "call_1", "f", arguments),
			object("type", "response.completed", "sequence_number", 5, "response", raw(response)),
		},
		"response.* events without ids": {
			`{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","name":"f"}}`,
			`{"type":"response.function_call_arguments.delta","output_index":0,"delta":"{\"a\":[1"}`,
			`{"type":"response.function_call_arguments.delta","output_index":0,"delta":",2]}"}`,
			`{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","name":"f"}}`,
		},
		"response.* with the item's own id only at the delta": {
			`{"type":"response.output_item.added","output_index":3,"item":{"type":"function_call","call_id":"call_1","name":"f"}}`,
			argumentsDelta(1, 3, "fc_1", `{"a":[1`), argumentsDelta(2, 3, "fc_1", `,2]}`),
		},
		"arguments.done alone, which has a name": {argumentsDone(3, 0, "fc_1", "f", arguments)},
		"deltas before the item":                 {argumentsDelta(1, 0, "fc_1", arguments), itemAdded(2, 0, "fc_1", "call_1", "f")},
		"response object":                        {response},
		"function_call item":                     {functionCall},
		"app-server notifications": {
			rawItem("call_1", "f", arguments), itemStarted("call_1", "f", arguments),
			toolCallRequest("call_1", "f", arguments), itemCompleted("call_1", "f", arguments),
		},
		"app-server, fragments": {
			`{"method":"item/started","params":{"item":{"type":"dynamicToolCall","id":"call_1","tool":"f","arguments":null,"status":"inProgress"}}}`,
			threadFragment("call_1", `{"a":[1`), threadFragment("call_1", `,2]}`), rawItem("call_1", "f", arguments),
		},
		"app-server, fragments before the name": {threadFragment("call_1", `{"a":[1`), threadFragment("call_1", `,2]}`), itemStarted("call_1", "f", arguments)},
		"params of fragments":                   {itemStarted("call_1", "f", "null"), `{"threadId":"t","turnId":"u","itemId":"call_1","callId":"call_1","delta":"{\"a\":[1,2]}"}`},
		"app-server, the item before its text":  {itemStarted("call_1", "f", `{"a": [1, 2]}`), rawItem("call_1", "f", arguments)},
		"app-server, the request only":          {toolCallRequest("call_1", "f", arguments)},
		"app-server, the completed item only":   {itemCompleted("call_1", "f", arguments)},
		"params of a notification":              {`{"threadId":"t","turnId":"u","item":` + functionCall + `}`},
		"params of item/tool/call":              {object("threadId", "t", "callId", "call_1", "tool", "f", "arguments", raw(arguments))},
		"chat delta":                            {chatHead(0, "call_1", "f", `{"a"`), chatNext(0, `:[1,2]}`)},
		"chat delta, whole":                     {chatHead(0, "call_1", "f", arguments)},
		"object with a delta":                   {`{"delta":` + chatHead(0, "call_1", "f", `{"a"`) + `}`, `{"index":0,"delta":` + chatNext(0, `:[1,2]}`) + `}`},
		"chat.completion.chunk":                 {choice(chatHead(0, "call_1", "f", `{"a"`)), choice(chatNext(0, `:[1,2]}`)), choice("{}")},
		"chat delta without index":              {`{"tool_calls":[{"id":"call_1","function":{"name":"f","arguments":"{\"a\":[1,"}}]}`, `{"tool_calls":[{"function":{"arguments":"2]}"}}]}`},
		"chat delta, the id later":              {`{"tool_calls":[{"index":0,"function":{"name":"f"}}]}`, `{"tool_calls":[{"index":0,"id":"call_1","function":{"arguments":"{\"a\":[1,2]}"}}]}`},
		"chat delta with the head in each":      {chatHead(0, "c", "f", `{"a"`), chatHead(0, "c", "f", ":["), chatHead(0, "c", "f", "1,2]}")},
		"delta.function_call":                   {object("function_call", raw(object("name", "f", "arguments", ""))), delta(`{"a":[`), delta(`1,2]}`)},
		"object with a message":                 {`{"message":` + message + `}`},
		"chat.completion":                       {object("object", "chat.completion", "choices", []any{raw(`{"index":0,"message":` + message + `}`)})},
		"chat stream, then the message of it":   {chatHead(0, "call_1", "f", arguments), `{"message":` + message + `}`},
		"message without ids behind its stream": {chatHead(0, "call_1", "f", arguments), `{"message":{"tool_calls":[{"function":` + string(function) + `}]}}`},
	}
}

func TestMessageShapes(t *testing.T) {
	call := `{"id":"call_1","type":"function","function":{"name":"f","arguments":"{}"}}`
	for shape, message := range map[string]string{
		"message":         `{"role":"assistant","content":null,"tool_calls":[` + call + `]}`,
		"function_call":   `{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}}`,
		"wrapped":         `{"message":{"tool_calls":[` + call + `]}}`,
		"chat.completion": `{"id":"chatcmpl-1","choices":[{"index":0,"message":{"tool_calls":[` + call + `]}}]}`,
		"response":        `{"output":[{"type":"message"},{"type":"function_call","call_id":"call_1","name":"f","arguments":"{}"}]}`,
		"item":            `{"type":"function_call","call_id":"call_1","name":"f","arguments":"{}"}`,
	} {
		t.Run(shape, func(t *testing.T) {
			a := New(Options{})
			d := one(t, a.IngestMessage(0, []byte(message)))
			if !d.Done || !d.First || d.Fragment != "{}" {
				t.Errorf("delta %+v", d)
			}
			wantCalls(t, a, 0, "f", "{}")
			wantNothing(t, a.IngestMessage(0, []byte(message)))
		})
	}
}

func TestRecordedTurns(t *testing.T) {
	a := New(Options{})
	var deltas []Delta
	for _, event := range recording(t, "tool-burst.jsonl") {
		deltas = append(deltas, a.Ingest(0, event).Deltas...)
		wantNothing(t, a.Ingest(0, event))
	}
	wantCalls(t, a, 0,
		"localSearch", `{"query": "obsidian copilot 0", "k": 8}`,
		"localSearch", `{"query": "obsidian copilot 1", "k": 8}`,
		"localSearch", `{"query": "obsidian copilot 2", "k": 8}`)
	wantFolded(t, a, 0, deltas)
	if len(deltas) != 3 || !deltas[0].Done {
		t.Errorf("want one complete delta a call: %+v", deltas)
	}

	b := New(Options{})
	for _, event := range recording(t, "text-then-tool.jsonl") {
		b.Ingest(0, event)
	}
	if got := b.Snapshot(0); len(got) != 1 || !strings.HasPrefix(got[0].BackendID, "call_") {
		t.Errorf("calls of the turn with text: %+v", got)
	}
	if s := b.Stats(); s.Malformed != 0 || s.Conflicts != 0 {
		t.Errorf("a recorded turn is in order, stats are %+v", s)
	}
}

func TestRenderedArguments(t *testing.T) {
	const rendered, written = `{"k":8,"q":"x"}`, `{"q": "x", "k": 8}`
	t.Run("the text comes in time", func(t *testing.T) {
		a := New(Options{})
		d := one(t, a.Ingest(0, []byte(itemStarted("c", "f", rendered))))
		if d.Arguments != rendered || !d.First || d.Done {
			t.Fatalf("the first delta: %+v", d)
		}
		if r := a.Snapshot(0)[0]; !r.Provisional || r.Function.Arguments != rendered {
			t.Errorf("snapshot before the text: %+v", r)
		}
		if d = one(t, a.Ingest(0, []byte(rawItem("c", "f", written)))); d.Fragment != written || !d.Replaced {
			t.Errorf("the text: %+v", d)
		}
		wantNothing(t, a.Ingest(0, []byte(toolCallRequest("c", "f", rendered))))
		wantCalls(t, a, 0, "f", written)
	})
	t.Run("the text comes too late", func(t *testing.T) {
		a := New(Options{})
		deltas := feed(a, 0, itemStarted("c", "f", rendered), toolCallRequest("c", "f", rendered))
		if len(deltas) != 1 || deltas[0].Arguments != rendered || !a.Snapshot(0)[0].Done {
			t.Fatalf("the call is complete, the deltas are %+v", deltas)
		}
		d := one(t, a.Ingest(0, []byte(rawItem("c", "f", written))))
		if !d.Replaced || d.Fragment != written {
			t.Errorf("the text replaces: %+v", d)
		}
		wantNothing(t, a.Ingest(0, []byte(itemCompleted("c", "f", rendered))))
		wantCalls(t, a, 0, "f", written)
		if r := a.Snapshot(0)[0]; r.Provisional {
			t.Error("the text is provisional")
		}
	})
	t.Run("the text never comes", func(t *testing.T) {
		a := New(Options{})
		deltas := feed(a, 0, itemStarted("c", "f", rendered), itemCompleted("c", "f", rendered))
		wantCalls(t, a, 0, "f", rendered)
		if fold(t, deltas)["tool_0_0"] != rendered {
			t.Errorf("deltas %+v", deltas)
		}
	})
}

func TestSeveralResponsesInATurn(t *testing.T) {
	a := New(Options{})
	// The numbers and the output indexes begin again with each response.
	turn := []string{
		itemAdded(0, 0, "fc_1", "call_1", "f"), argumentsDelta(1, 0, "fc_1", "1"),
		itemDone(2, 0, "fc_1", "call_1", "f", "1"),
		itemAdded(0, 0, "fc_2", "call_2", "f"), argumentsDelta(1, 0, "fc_2", "2"),
		itemDone(2, 0, "fc_2", "call_2", "f", "2"),
		chatHead(0, "call_3", "f", ""), chatNext(0, "3"),
		chatHead(0, "call_4", "f", ""), chatNext(0, "4"),
	}
	feed(a, 0, turn...)
	wantCalls(t, a, 0, "f", "1", "f", "2", "f", "3", "f", "4")
	feed(a, 0, turn[:6]...)
	wantCalls(t, a, 0, "f", "1", "f", "2", "f", "3", "f", "4")
}

func TestCompleteTextsRank(t *testing.T) {
	message := `{"tool_calls":[{"id":"call_1","function":{"name":"f","arguments":"message"}}]}`
	for name, c := range map[string]struct {
		events []string
		want   string
	}{
		"item over fragments":           {[]string{itemAdded(0, 0, "i", "call_1", "f"), argumentsDelta(1, 0, "i", "part"), rawItem("call_1", "f", "item")}, "item"},
		"message over fragments":        {[]string{itemAdded(0, 0, "i", "call_1", "f"), argumentsDelta(1, 0, "i", "part"), `{"message":` + message + `}`}, "message"},
		"item over message":             {[]string{`{"message":` + message + `}`, rawItem("call_1", "f", "item")}, "item"},
		"message does not replace item": {[]string{rawItem("call_1", "f", "item"), `{"message":` + message + `}`}, "item"},
		"an empty text replaces none":   {[]string{rawItem("call_1", "f", "item"), itemDone(9, 0, "i", "call_1", "f", "")}, "item"},
	} {
		t.Run(name, func(t *testing.T) {
			a := New(Options{})
			deltas := feed(a, 0, c.events...)
			wantCalls(t, a, 0, "f", c.want)
			wantFolded(t, a, 0, deltas)
			for _, e := range c.events {
				wantNothing(t, a.Ingest(0, []byte(e)))
			}
		})
	}
}
