package aggregator

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// The events and messages that carry calls.
const (
	eventItemAdded      = "response.output_item.added"
	eventItemDone       = "response.output_item.done"
	eventArgumentsDelta = "response.function_call_arguments.delta"
	eventArgumentsDone  = "response.function_call_arguments.done"

	methodRawItem       = "rawResponseItem/completed"
	methodItemStarted   = "item/started"
	methodFragment      = "item/dynamicToolCall/argumentsDelta"
	methodItemCompleted = "item/completed"
	methodToolCall      = "item/tool/call"
)

// recording returns the messages of a recorded turn, one JSON object each.
func recording(t testing.TB, name string) [][]byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	var events [][]byte
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, len(data)+1)
	for lines.Scan() {
		events = append(events, bytes.Clone(lines.Bytes()))
	}
	return events
}

// feed ingests events one after the other and returns all deltas.
func feed(a *Aggregator, choice int, events ...string) []Delta {
	var deltas []Delta
	for _, e := range events {
		deltas = append(deltas, a.Ingest(choice, []byte(e)).Deltas...)
	}
	return deltas
}

// wantCalls checks the names and arguments of a choice's calls, given as
// alternating name and arguments.
func wantCalls(t testing.TB, a *Aggregator, choice int, want ...string) {
	t.Helper()
	var got []string
	for _, r := range a.Snapshot(choice) {
		got = append(got, r.Function.Name, r.Function.Arguments)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("calls of choice %d:\n got %q\nwant %q", choice, got, want)
	}
}

// wantNothing checks that a result says that nothing changed.
func wantNothing(t testing.TB, r Result) {
	t.Helper()
	if r.Updated || len(r.Deltas) != 0 {
		t.Fatalf("want no change, got %+v", r)
	}
}

// one returns the only delta of a result.
func one(t testing.TB, r Result) Delta {
	t.Helper()
	if !r.Updated || len(r.Deltas) != 1 {
		t.Fatalf("want one delta, got %+v", r)
	}
	return r.Deltas[0]
}

// fold replays deltas as a client does, and checks on the way that each is what
// it says: first once, the fragment the end of the arguments.
func fold(t testing.TB, deltas []Delta) map[string]string {
	t.Helper()
	text := make(map[string]string)
	for _, d := range deltas {
		_, seen := text[d.ID]
		if d.First == seen {
			t.Fatalf("First is %v on a call seen before: %v", d.First, seen)
		}
		if d.Name == "" || d.Type != CallType {
			t.Fatalf("delta without name or type: %+v", d)
		}
		if d.Replaced {
			text[d.ID] = ""
		}
		text[d.ID] += d.Fragment
		if text[d.ID] != d.Arguments {
			t.Fatalf("fragments make %q, arguments are %q", text[d.ID], d.Arguments)
		}
	}
	return text
}

// wantFolded checks that the deltas of a choice make its snapshot.
func wantFolded(t testing.TB, a *Aggregator, choice int, deltas []Delta) {
	t.Helper()
	text := fold(t, deltas)
	records := a.Snapshot(choice)
	if len(records) != len(text) {
		t.Fatalf("%d calls in deltas, %d in the snapshot", len(text), len(records))
	}
	for i, r := range records {
		if r.Index != i {
			t.Fatalf("record %d has index %d", i, r.Index)
		}
		if !r.Provisional && text[r.ID] != r.Function.Arguments {
			t.Fatalf("deltas make %q, the snapshot has %q", text[r.ID], r.Function.Arguments)
		}
	}
}

// object writes JSON from alternating keys and values.
func object(pairs ...any) string {
	var out strings.Builder
	out.WriteByte('{')
	for i := 0; i < len(pairs); i += 2 {
		if i > 0 {
			out.WriteByte(',')
		}
		out.WriteString(wirejson.Quote(pairs[i].(string)) + ":")
		value, err := json.Marshal(pairs[i+1])
		if err != nil {
			panic(err)
		}
		out.Write(value)
	}
	return out.String() + "}"
}

// raw is JSON that object takes as it is.
func raw(text string) json.RawMessage { return json.RawMessage(text) }

// The events of a Responses stream, as OpenAI's API writes them.

func itemAdded(sequence, output int, itemID, callID, name string) string {
	return object("type", eventItemAdded, "sequence_number", sequence, "output_index", output, "item",
		raw(object("type", "function_call", "id", itemID, "call_id", callID, "name", name,
			"arguments", "", "status", "in_progress")))
}

func argumentsDelta(sequence, output int, itemID, delta string) string {
	return object("type", eventArgumentsDelta, "sequence_number", sequence, "output_index", output,
		"item_id", itemID, "delta", delta)
}

// namedFragment is a fragment that names its call. It has no number.
func namedFragment(callID, name, delta string) string {
	return object("type", eventArgumentsDelta, "call_id", callID, "name", name, "delta", delta)
}

func argumentsDone(sequence, output int, itemID, name, arguments string) string {
	return object("type", eventArgumentsDone, "sequence_number", sequence, "output_index", output,
		"item_id", itemID, "name", name, "arguments", arguments)
}

func itemDone(sequence, output int, itemID, callID, name, arguments string) string {
	return object("type", eventItemDone, "sequence_number", sequence, "output_index", output, "item",
		raw(object("type", "function_call", "id", itemID, "call_id", callID, "name", name,
			"arguments", arguments, "status", "completed")))
}

// The messages of the app-server, as codex 0.169 writes them.

func rawItem(callID, name, arguments string) string {
	return object("method", methodRawItem, "params", raw(object("threadId", "thr", "turnId", "turn", "item",
		raw(object("type", "function_call", "id", "fc_"+callID, "name", name,
			"arguments", arguments, "call_id", callID)))))
}

func itemStarted(callID, name, arguments string) string {
	return object("method", methodItemStarted, "params", raw(object("item",
		raw(object("type", "dynamicToolCall", "id", callID, "namespace", nil, "tool", name,
			"arguments", raw(arguments), "status", "inProgress")), "threadId", "thr", "turnId", "turn")))
}

func threadFragment(callID, delta string) string {
	return object("method", methodFragment, "params", raw(object("threadId", "thr", "turnId", "turn",
		"itemId", callID, "callId", callID, "delta", delta)))
}

func itemCompleted(callID, name, arguments string) string {
	return object("method", methodItemCompleted, "params", raw(object("item",
		raw(object("type", "dynamicToolCall", "id", callID, "namespace", nil, "tool", name,
			"arguments", raw(arguments), "status", "completed")), "threadId", "thr", "turnId", "turn")))
}

func toolCallRequest(callID, name, arguments string) string {
	return object("method", methodToolCall, "id", 0, "params", raw(object("threadId", "thr", "turnId", "turn",
		"callId", callID, "namespace", nil, "tool", name, "arguments", raw(arguments))))
}

// chatHead and chatNext are the two kinds of chat deltas.

func chatHead(index int, id, name, arguments string) string {
	return object("tool_calls", []any{raw(object("index", index, "id", id, "type", "function",
		"function", raw(object("name", name, "arguments", arguments))))})
}

func chatNext(index int, arguments string) string {
	return object("tool_calls", []any{raw(object("index", index,
		"function", raw(object("arguments", arguments))))})
}
