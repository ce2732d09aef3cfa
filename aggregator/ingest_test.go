package aggregator

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf16"
)

// TestErrors checks that a result says why a part of its input was ignored.
func TestErrors(t *testing.T) {
	for input, want := range map[string]struct {
		choice int
		err    error
	}{
		`[]`:           {0, ErrMalformed},
		`{"a"`:         {0, ErrMalformed},
		`{"type":"x"}`: {0, nil},
		`{"type":"response.output_text.delta","delta":"so"}`: {0, nil},
		`{"tool_calls":[1]}`:        {0, ErrMalformed},
		chatNext(0, "{"):            {0, nil}, // it may get a name
		chatHead(0, "c", "f", "{}"): {0, nil},
		chatHead(0, "c", strings.Repeat("n", maxNameBytes+1), ""):                 {0, ErrMalformed},
		chatHead(0, "d", "f", "{}"):                                               {-1, ErrMalformed},
		chatHead(0, "e", "f", "12345678"):                                         {0, ErrOverLimit},
		chatHead(0, "g", "f", "{"):                                                {MaxChoices, nil},
		`{"type":"response.function_call_arguments.delta"}`:                       {0, ErrMalformed},
		`{"tool_calls":[{"index":"0","function":{"name":"f","arguments":"{}"}}]}`: {0, ErrMalformed},
		`{"tool_calls":[{"index":0,"function":{"name":"f","arguments":7}}]}`:      {0, ErrMalformed},
	} {
		a := New(Options{MaxArgumentBytes: 7})
		if r := a.Ingest(want.choice, []byte(input)); !errors.Is(r.Err, want.err) || want.err == nil && r.Err != nil {
			t.Errorf("%.80s: %v, want %v", input, r.Err, want.err)
		}
		stats := a.Stats()
		if (stats.Malformed > 0) != (want.err == ErrMalformed) || (stats.OverLimit > 0) != (want.err == ErrOverLimit) {
			t.Errorf("%.80s: %+v", input, stats)
		}
	}
	a := New(Options{MaxCalls: 1})
	for i, want := range []error{nil, ErrOverLimit} {
		if r := a.Ingest(0, []byte(rawItem([]string{"a", "b"}[i], "f", "{}"))); !errors.Is(r.Err, want) || want == nil && r.Err != nil {
			t.Errorf("call %d: %v", i, r.Err)
		}
	}
	for i := range MaxChoices {
		a.Ingest(i, []byte(chatHead(0, "c", "f", "")))
	}
	if r := a.Ingest(MaxChoices, []byte(chatHead(0, "c", "f", ""))); !errors.Is(r.Err, ErrOverLimit) {
		t.Errorf("a choice too many: %v", r.Err)
	}
}

// What must not be lost or mixed up, though backends write it in odd ways.

// TestLateName: what comes with a name that was late is a fragment like those before.
func TestLateName(t *testing.T) {
	added := object("type", eventItemAdded, "output_index", 0, "sequence_number", 2, "item", raw(
		`{"type":"function_call","id":"fc_1","call_id":"call_1","name":"f","arguments":":1}","status":"in_progress"}`))
	for shape, events := range map[string][]string{
		"chat":          {chatNext(0, `{"a"`), chatHead(0, "call_1", "f", `:1}`)},
		"function_call": {`{"function_call":{"arguments":"{\"a\""}}`, `{"function_call":{"name":"f","arguments":":1}"}}`},
		"responses":     {argumentsDelta(1, 0, "fc_1", `{"a"`), added},
	} {
		a := New(Options{})
		deltas := feed(a, 0, events...)
		wantCalls(t, a, 0, "f", `{"a":1}`)
		wantFolded(t, a, 0, deltas)
		wantNothing(t, a.Ingest(0, []byte(events[1])))
		if t.Failed() {
			t.Fatal(shape)
		}
	}
	a := New(Options{})
	feed(a, 0, namedFragment("c", "", `{"a"`), namedFragment("c", "f", `:1}`))
	wantCalls(t, a, 0, "f", `{"a":1}`)
}

// TestRepeatedHeads: of a backend that repeats the head with every fragment no text
// is lost, though fragments be equal.
func TestRepeatedHeads(t *testing.T) {
	for _, parts := range [][]string{
		{"l", "l", "a", "l", "l"}, {"a", "a", "a", "b"}, {"a", "b", "a", "a"}, {"", "a", "a", "b"}, {`"`, "x", `"`},
	} {
		want := strings.Join(parts, "")
		for form, head := range map[string]func(part string) string{
			"with an id":    func(part string) string { return chatHead(0, "call_1", "f", part) },
			"without":       func(part string) string { return chatHead(0, "", "f", part) },
			"function_call": func(part string) string { return object("function_call", raw(object("name", "f", "arguments", part))) },
		} {
			a := New(Options{})
			var deltas []Delta
			for _, part := range parts {
				deltas = append(deltas, feed(a, 0, head(part))...)
			}
			wantCalls(t, a, 0, "f", want)
			wantFolded(t, a, 0, deltas)
			if t.Failed() {
				t.Fatal(form, parts)
			}
		}
	}
	// With positions nothing has to show what an equal head is.
	a := New(Options{})
	for again := range 2 {
		for i := range 3 {
			r := a.IngestEvent(0, uint64(i+1), []byte(chatHead(0, "call_1", "f", "l")))
			if r.Updated != (again == 0) {
				t.Errorf("round %d, head %d: %+v", again, i, r)
			}
		}
	}
	wantCalls(t, a, 0, "f", "lll")
	// The repetitions have only the room that there is.
	b := New(Options{MaxArgumentBytes: 5})
	for range 1000 {
		b.Ingest(0, []byte(chatHead(0, "call_1", "f", "ab")))
	}
	b.Ingest(0, []byte(chatHead(0, "call_1", "f", "c")))
	if r := b.Snapshot(0)[0]; r.Function.Arguments != "ababa" || !r.Truncated {
		t.Errorf("snapshot %+v", r)
	}
}

// escapedUnits are the escapes of a text, one for each UTF-16 code unit.
func escapedUnits(text string) []string {
	var escapes []string
	for _, unit := range utf16.Encode([]rune(text)) {
		escapes = append(escapes, fmt.Sprintf(`\u%04x`, unit))
	}
	return escapes
}

// TestSurrogateHalves: a character whose halves come in two deltas is one.
func TestSurrogateHalves(t *testing.T) {
	for text, want := range map[string]string{
		`\ud83d|\ude00`:              "😀",
		`a\ud83d|\ude00b`:            "a😀b",
		`\ud83d||\ude00`:             "😀",
		`\ud83d|x`:                   "\ufffdx",
		`\ud83d|\n`:                  "\ufffd\n",
		`\ud83d|\ud83d|\ude00`:       "\ufffd😀",
		`\ude00|\ud83d`:              "\ufffd\ufffd", // at the end of the call it is known to be alone
		`\\ud83d|\ude00`:             `\ud83d` + "\ufffd",
		`\\\ud83d|\ude00`:            `\` + "😀",
		`\ud83d\ude00|\uD83D|\uDE00`: "😀😀",
	} {
		for shape, delta := range map[string]func(i int, part string) string{
			"chat": func(_ int, part string) string {
				return `{"tool_calls":[{"index":0,"function":{"arguments":"` + part + `"}}]}`
			},
			"responses": func(i int, part string) string {
				return fmt.Sprintf(`{"type":"response.function_call_arguments.delta","item_id":"fc_1","sequence_number":%d,"delta":"%s"}`, i+1, part)
			},
		} {
			a := New(Options{})
			deltas := feed(a, 0, itemAdded(0, 0, "fc_1", "call_1", "f"))
			for i, part := range strings.Split(text, "|") {
				deltas = append(deltas, feed(a, 0, delta(i, part))...)
			}
			deltas = append(deltas, feed(a, 0, itemCompleted("call_1", "f", "null"))...)
			wantCalls(t, a, 0, "f", want)
			wantFolded(t, a, 0, deltas)
			if t.Failed() {
				t.Fatal(shape, text)
			}
		}
	}
	// A complete text says what the half was.
	a := New(Options{})
	feed(a, 0, chatHead(0, "call_1", "f", ""), `{"tool_calls":[{"index":0,"function":{"arguments":"\ud83d"}}]}`, rawItem("call_1", "f", "😀"))
	wantCalls(t, a, 0, "f", "😀")
	if s := a.Stats(); s.Conflicts != 0 {
		t.Errorf("stats %+v", s)
	}
}

// TestEndWithoutText: the end of a call is a change of its own, once.
func TestEndWithoutText(t *testing.T) {
	c := NewChoice(ChoiceOptions{})
	c.Call(Input{ID: "c", Name: "f", Text: "{}", Source: SourceFragment}, nil)
	end := Input{ID: "c", Name: "f", Text: "{}", Source: SourceItem, Done: true}
	if parts := c.Call(end, nil); len(parts) != 1 || parts[0].Kind != PartCall || !parts[0].Call.Done || parts[0].Call.Fragment != "" {
		t.Errorf("%+v", parts)
	}
	if parts := c.Call(end, nil); len(parts) != 1 || parts[0].Kind != PartRepeated {
		t.Errorf("again: %+v", parts)
	}
}

// TestHalfAtTheLimit: half a character for which there is no room is lost, which the call shows.
func TestHalfAtTheLimit(t *testing.T) {
	c := NewChoice(ChoiceOptions{Options: Options{MaxArgumentBytes: 5}})
	c.Call(Input{ID: "c", Name: "f", Text: "12345", Source: SourceFragment}, nil)
	parts := c.Call(Input{ID: "c", Text: "\xed\xb8\x80", Source: SourceFragment}, nil)
	if len(parts) != 1 || parts[0].Kind != PartOverLimit || !c.calls[0].truncated {
		t.Errorf("%+v", parts)
	}
}

// TestRenderedArgumentsLimit: what item/started brings counts, too.
func TestRenderedArgumentsLimit(t *testing.T) {
	a := New(Options{MaxArgumentBytes: 16})
	feed(a, 0, itemStarted("c1", "f", `{"a":1}`), itemStarted("c2", "g", `{"b":2}`), itemStarted("c3", "h", `{"c":3}`))
	wantCalls(t, a, 0, "f", `{"a":1}`, "g", `{"b":2}`, "h", "")
	if r := a.Snapshot(0)[2]; !r.Truncated || a.Stats().OverLimit != 1 {
		t.Errorf("%+v, stats %+v", r, a.Stats())
	}
	// The text of the model takes the place of what was rendered.
	feed(a, 0, rawItem("c1", "f", `{"a": 1}`), toolCallRequest("c2", "g", `{"b":2}`))
	wantCalls(t, a, 0, "f", `{"a": 1}`, "g", `{"b":2}`, "h", "")
	if s := a.choices[0]; s.argumentRoom != 1 {
		t.Errorf("room for %d bytes is left", s.argumentRoom)
	}
}

// TestEqualIDs: calls of different names are two, though a backend gives them one id.
func TestEqualIDs(t *testing.T) {
	toolCall := func(index int, name, arguments string) string {
		return object("index", index, "id", "x", "function", raw(object("name", name, "arguments", arguments)))
	}
	chat := func(calls ...string) string { return `{"tool_calls":[` + strings.Join(calls, ",") + `]}` }
	for shape, events := range map[string][]string{
		"raw items":  {rawItem("x", "f", "1"), rawItem("x", "g", "2")},
		"app-server": {itemStarted("x", "f", "1"), itemStarted("x", "g", "2"), itemCompleted("x", "f", "1"), itemCompleted("x", "g", "2")},
		"chat":       {chat(toolCall(0, "f", "1"), toolCall(1, "g", "2"))},
		"chat with fragments": {chat(toolCall(0, "f", "")), chat(toolCall(1, "g", "")),
			chat(`{"index":0,"id":"x","function":{"arguments":"1"}}`, `{"index":1,"id":"x","function":{"arguments":"2"}}`)},
		"chat, one behind the other": {chat(toolCall(0, "f", "")), chat(`{"index":0,"id":"x","function":{"arguments":"1"}}`),
			chat(toolCall(0, "g", "")), chat(`{"index":0,"id":"x","function":{"arguments":"2"}}`)},
		"message": {object("message", raw(chat(toolCall(0, "f", "1"), toolCall(1, "g", "2"))))},
		"responses": {itemAdded(1, 0, "i", "x", "f"), itemAdded(2, 1, "i", "x", "g"),
			argumentsDelta(3, 0, "i", "1"), argumentsDelta(4, 1, "i", "2"),
			itemDone(5, 0, "i", "x", "f", "1"), itemDone(6, 1, "i", "x", "g", "2")},
		"responses, one behind the other": {itemAdded(1, 0, "i", "x", "f"), argumentsDelta(2, 0, "i", "1"), itemDone(3, 0, "i", "x", "f", "1"),
			itemAdded(4, 0, "i", "x", "g"), argumentsDelta(5, 0, "i", "2"), itemDone(6, 0, "i", "x", "g", "2")},
	} {
		a := New(Options{})
		deltas := feed(a, 0, events...)
		wantCalls(t, a, 0, "f", "1", "g", "2")
		wantFolded(t, a, 0, deltas)
		if s := a.Stats(); s.Conflicts != 0 {
			t.Errorf("%s: stats %+v", shape, s)
		}
		if strings.Contains(shape, "fragments") || strings.Contains(shape, "chat, one") {
			continue // chat deltas have no identity
		}
		for _, event := range events {
			wantNothing(t, a.Ingest(0, []byte(event)))
		}
		if t.Failed() {
			t.Fatal(shape)
		}
	}
	// Items that have the call id alone.
	a := New(Options{})
	for _, name := range []string{"f", "g", "h", "f"} {
		feed(a, 0, object("type", "function_call", "call_id", "x", "name", name, "arguments", name))
	}
	wantCalls(t, a, 0, "f", "f", "g", "g", "h", "h")
}

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
		"longer item over message":      {[]string{`{"message":` + message + `}`, rawItem("call_1", "f", "message, longer")}, "message, longer"},
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
