package aggregator

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf16"
)

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
