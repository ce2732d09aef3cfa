package aggregator

import (
	"fmt"
	"testing"
)

func TestChatDeltaIdentity(t *testing.T) {
	head, part := chatHead(0, "call_1", "f", `{"s":"`), chatNext(0, "aa")
	t.Run("a head is a head once", func(t *testing.T) {
		a := New(Options{})
		feed(a, 0, head, part)
		wantNothing(t, a.Ingest(0, []byte(head)))
		wantCalls(t, a, 0, "f", `{"s":"aa`)
	})
	t.Run("positions are an identity", func(t *testing.T) {
		a := New(Options{})
		stream := []string{head, part, part, chatNext(0, `"}`)}
		for again := range 2 {
			for i, event := range stream {
				r := a.IngestEvent(0, uint64(i+1), []byte(event))
				if r.Updated != (again == 0) {
					t.Errorf("round %d, event %d: %+v", again, i, r)
				}
			}
		}
		wantCalls(t, a, 0, "f", `{"s":"aaaa"}`)
		if got := a.Stats().Duplicates; got != 4 {
			t.Errorf("%d duplicates", got)
		}
		// Another choice has positions of its own, and 0 is none.
		if !a.IngestEvent(1, 1, []byte(head)).Updated || !a.IngestEvent(0, 0, []byte(chatHead(1, "c2", "g", ""))).Updated {
			t.Error("positions of one stream count in another")
		}
	})
	t.Run("function_call", func(t *testing.T) {
		legacyHead := `{"function_call":{"name":"f","arguments":"{"}}`
		a := New(Options{})
		feed(a, 0, legacyHead, legacyHead, `{"function_call":{"arguments":"}"}}`, legacyHead)
		feed(a, 0, `{"function_call":{"name":"g","arguments":"[]"}}`, legacyHead)
		wantCalls(t, a, 0, "f", "{}", "g", "[]")
	})
}

// TestNamedFragments: a number makes a fragment that names its call a repetition, and
// fragments without ids belong to the call that was created last.
func TestNamedFragments(t *testing.T) {
	a := New(Options{})
	fragment := func(n int) []byte {
		return []byte(object("type", eventArgumentsDelta, "call_id", "call_2", "name", "g", "delta", "aa", "sequence_number", n))
	}
	one(t, a.Ingest(0, fragment(1)))
	wantNothing(t, a.Ingest(0, fragment(1)))
	one(t, a.Ingest(0, fragment(2)))
	one(t, a.Ingest(0, []byte(rawItem("call_2", "g", "aaaa!"))))
	wantNothing(t, a.Ingest(0, fragment(3)))
	wantCalls(t, a, 0, "g", "aaaa!")

	b := New(Options{})
	feed(b, 0, namedFragment("", "f", ""), namedFragment("", "", "1"), namedFragment("", "g", "2"), namedFragment("", "", "3"))
	wantCalls(t, b, 0, "f", "1", "g", "23")
}

func TestConflicts(t *testing.T) {
	a := New(Options{})
	feed(a, 0, chatHead(0, "call_1", "f", "{"))
	d := one(t, a.Ingest(0, []byte(rawItem("call_1", "f", "[]"))))
	if d.Name != "f" || !d.Replaced || d.Arguments != "[]" || d.Fragment != "[]" || d.ID != "tool_0_0" {
		t.Errorf("delta %+v", d)
	}
	wantNothing(t, a.IngestMessage(0, []byte(`{"tool_calls":[{"id":"call_1","function":{"name":"f","arguments":"[1]"}}]}`)))
	wantCalls(t, a, 0, "f", "[]")
	if got := a.Stats().Conflicts; got != 2 {
		t.Errorf("%d conflicts", got)
	}
}

// TestSnapshotsAddNothing: a message made of a snapshot, as it is now or was, is
// no news, and completes nothing.
func TestSnapshotsAddNothing(t *testing.T) {
	a := New(Options{})
	feed(a, 0, chatHead(0, "call_1", "f", "a"))
	snapshot := `{"id":"tool_0_0","type":"function","function":{"name":"f","arguments":"a"}}`
	feed(a, 0, chatNext(0, "b"))
	wantNothing(t, a.IngestMessage(0, []byte(`{"tool_calls":[`+snapshot+`]}`)))
	wantNothing(t, a.Ingest(0, []byte(`{"tool_calls":[`+snapshot+`]}`)))
	wantNothing(t, a.Ingest(0, []byte(`{"type":"function_call","call_id":"tool_0_0","name":"f","arguments":"a"}`)))
	feed(a, 0, chatNext(0, "c"))
	wantCalls(t, a, 0, "f", "abc")
}

// TestIDsStayWithTheirCall: an item is one call, and the id that it gets does not move the text of
// another one into it.
func TestIDsStayWithTheirCall(t *testing.T) {
	a := New(Options{})
	turn := []string{
		argumentsDone(1, 0, "fc_1", "f", "1"), // known by its item
		rawItem("x", "f", "2"),                // known by its call id
		itemDone(2, 0, "fc_1", "x", "f", "2"), // the first one
	}
	feed(a, 0, turn...)
	feed(a, 0, turn...)
	wantCalls(t, a, 0, "f", "2", "f", "2")
}

// TestIncompleteEntries: entries of messages and deltas that lack what names a call.
func TestIncompleteEntries(t *testing.T) {
	a := New(Options{})
	noName := `{"tool_calls":[{"id":"call_1","function":{"arguments":"{}"}}]}`
	wantNothing(t, a.IngestMessage(0, []byte(noName)))
	if got := a.Stats().Malformed; got != 1 {
		t.Errorf("a message with a call without a name: %d malformed", got)
	}
	feed(a, 0, chatHead(0, "call_1", "f", ""))
	one(t, a.IngestMessage(0, []byte(noName)))
	wantCalls(t, a, 0, "f", "{}")
	// The id of another call at the same index is another call, which waits.
	other := `{"tool_calls":[{"index":0,"id":"call_2","function":{"arguments":"[]"}}]}`
	wantNothing(t, a.Ingest(0, []byte(other)))
	d := one(t, a.Ingest(0, []byte(chatHead(0, "call_2", "g", ""))))
	if d.Arguments != "[]" || d.ID != "tool_0_1" {
		t.Errorf("delta %+v", d)
	}
	// A fragment without text makes no call, and arguments may be an object.
	wantNothing(t, a.Ingest(0, []byte(chatNext(5, ""))))
	one(t, a.IngestMessage(0, []byte(`{"tool_calls":[{"id":"call_3","function":{"name":"h","arguments":{"k": 1}}}]}`)))
	one(t, a.Ingest(0, []byte(`{"method":"item/tool/call","params":{"callId":"call_4","tool":"i","arguments":null}}`)))
	wantCalls(t, a, 0, "f", "{}", "g", "[]", "h", `{"k": 1}`, "i", "")
}

func TestAnnouncedItems(t *testing.T) {
	// An item may be announced with the beginning of its arguments. The same
	// announcement under another number brings them no second time.
	a := New(Options{})
	added := func(number int) string {
		return object("type", eventItemAdded, "sequence_number", number, "output_index", 0, "item", raw(
			`{"type":"function_call","id":"fc_1","call_id":"call_1","name":"f","arguments":"{","status":"in_progress"}`))
	}
	feed(a, 0, added(1))
	wantNothing(t, a.Ingest(0, []byte(added(2))))
	feed(a, 0, argumentsDelta(3, 0, "fc_1", "}"))
	wantCalls(t, a, 0, "f", "{}")

	// Another item at the same output index is another call: its fragments wait.
	wantNothing(t, a.Ingest(0, []byte(argumentsDelta(4, 0, "fc_2", "[]"))))
	feed(a, 0, itemAdded(5, 0, "fc_2", "call_2", "g"))
	wantCalls(t, a, 0, "f", "{}", "g", "[]")
}

// TestBothForms: function_call beside tool_calls is the same call in the older
// form, in a delta as in a message.
func TestBothForms(t *testing.T) {
	a := New(Options{})
	feed(a, 0, `{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"a"}}],"function_call":{"name":"f","arguments":"a"}}`,
		`{"tool_calls":[{"index":0,"function":{"arguments":"a"}}],"function_call":{"arguments":"a"}}`)
	wantCalls(t, a, 0, "f", "aa")
}

// TestFragmentAfterRefusedCall checks that a fragment without an id is not appended to an earlier
// call, if it follows a call for whose ids there is no room.
func TestFragmentAfterRefusedCall(t *testing.T) {
	for name, next := range map[string]Input{
		"named":    {ID: "next", Name: "f", Text: "{", Source: SourceFragment},
		"nameless": {ID: "next", Text: "{", Source: SourceFragment},
	} {
		c := NewChoice(ChoiceOptions{})
		last := ""
		for i := 0; c.keyRoom >= keySize+len("next"); i++ { // calls without a name are hidden
			last = fmt.Sprint("call_", i)
			c.Call(Input{ID: last, Text: "{", Source: SourceFragment}, nil)
		}
		if parts := c.Call(next, nil); len(parts) != 1 || parts[0].Kind != PartOverLimit {
			t.Errorf("%s: a call without room is %+v", name, parts)
		}
		if parts := c.Call(Input{Text: `"a":1}`, Source: SourceFragment}, nil); len(parts) != 1 || parts[0].Kind != PartMalformed {
			t.Errorf("%s: the fragment is %+v", name, parts)
		}
		parts := c.Call(Input{ID: last, Name: "g", Source: SourceFragment}, nil)
		if len(parts) != 1 || parts[0].Call.Arguments != "{" {
			t.Errorf("%s: the earlier call is %+v", name, parts)
		}
	}
}
