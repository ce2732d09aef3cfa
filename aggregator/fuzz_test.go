package aggregator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

// The corpora of these fuzz tests are in testdata/fuzz and run with every test.

// cutText cuts a text into pieces of the given sizes, over and over, and never
// within a character, for pieces are JSON strings.
func cutText(text string, sizes []byte) []string {
	var parts []string
	for i := 0; text != ""; i++ {
		n := len(text)
		if len(sizes) > 0 {
			n = min(n, 1+int(sizes[i%len(sizes)]))
		}
		for n < len(text) && !utf8.RuneStart(text[n]) {
			n++
		}
		parts = append(parts, text[:n])
		text = text[n:]
	}
	return parts
}

// streams are the shapes in which arguments come in parts.
var streams = map[string]func(a *Aggregator, parts []string) []Delta{
	"responses": func(a *Aggregator, parts []string) []Delta {
		deltas := feed(a, 0, itemAdded(0, 0, "fc_1", "call_1", "f"))
		for i, part := range parts {
			deltas = append(deltas, feed(a, 0, argumentsDelta(i+1, 0, "fc_1", part))...)
		}
		return deltas
	},
	"chat": func(a *Aggregator, parts []string) []Delta {
		deltas := feed(a, 0, chatHead(0, "call_1", "f", ""))
		for _, part := range parts {
			deltas = append(deltas, feed(a, 0, chatNext(0, part))...)
		}
		return deltas
	},
	"responses in escapes of code units": func(a *Aggregator, parts []string) []Delta {
		deltas := feed(a, 0, itemAdded(0, 0, "fc_1", "call_1", "f"))
		for i, escape := range escapedUnits(strings.Join(parts, "")) {
			deltas = append(deltas, feed(a, 0, fmt.Sprintf(
				`{"type":"response.function_call_arguments.delta","item_id":"fc_1","sequence_number":%d,"delta":"%s"}`, i+1, escape))...)
		}
		return deltas
	},
}

// FuzzCuts: however the arguments are cut, and in whatever shape they come, the
// snapshot is the same, with a limit as without.
func FuzzCuts(f *testing.F) {
	f.Add(`{"s":"llaaaa"}`, []byte{0}, uint16(0))
	f.Fuzz(func(t *testing.T, text string, sizes []byte, limit uint16) {
		text = strings.ToValidUTF8(text, "�")
		want := text
		if limit > 0 {
			want = text[:min(len(text), int(limit))]
		}
		for shape, stream := range streams {
			for _, parts := range [][]string{{text}, cutText(text, sizes), cutText(text, []byte{0})} {
				a := New(Options{MaxArgumentBytes: int(limit)})
				deltas := stream(a, parts)
				wantFolded(t, a, 0, deltas)
				r := a.Snapshot(0)
				if len(r) != 1 || r[0].Function.Arguments != want || r[0].Truncated != (len(want) < len(text)) {
					t.Fatalf("%s: %+v, want %q", shape, r, want)
				}
			}
		}
	})
}

// step is one ingest of a program.
type step func(a *Aggregator) Result

// program turns bytes into a turn: every kind of event that has an identity, for
// four calls, with texts that agree or do not.
func program(code []byte) []step {
	var steps []step
	number := 0
	text := []string{"", "a", "aa", `{"a":1}`}
	for i := 0; i+1 < len(code) && i < 400; i += 2 {
		number++
		n, which := number, int(code[i+1]%4)
		call, fc, name := fmt.Sprint("call_", which), fmt.Sprint("fc_", which), fmt.Sprint("f", which/2)
		kind := code[i] % 15
		if which == 3 {
			// Calls of two names share these ids. Events without a name would be about
			// either, so there are none.
			kind = []byte{2, 3, 4, 5, 6, 7, 8, 13}[kind%8]
			name += []string{"", "other"}[code[i+1]/16%2]
		}
		part := text[code[i+1]/4%4]
		ingest := func(event string) step {
			return func(a *Aggregator) Result { return a.Ingest(0, []byte(event)) }
		}
		position := func(event string) step {
			return func(a *Aggregator) Result { return a.IngestEvent(0, uint64(n), []byte(event)) }
		}
		message := func(event string) step {
			return func(a *Aggregator) Result { return a.IngestMessage(0, []byte(event)) }
		}
		function := raw(object("name", name, "arguments", part))
		switch kind {
		case 0:
			steps = append(steps, ingest(itemAdded(n, which, fc, call, name)))
		case 1:
			steps = append(steps, ingest(argumentsDelta(n, which, fc, part)))
		case 2:
			steps = append(steps, ingest(argumentsDone(n, which, fc, name, "D"+part)))
		case 3:
			steps = append(steps, ingest(itemDone(n, which, fc, call, name, part+"I")))
		case 4:
			steps = append(steps, ingest(strings.ReplaceAll(rawItem(call, name, part), "fc_call", "fc")))
		case 5:
			steps = append(steps, ingest(itemStarted(call, name, `{"started":1}`)))
		case 6:
			steps = append(steps, ingest(toolCallRequest(call, name, `{"asked":1}`)))
		case 7:
			steps = append(steps, ingest(itemCompleted(call, name, `{"done":1}`)))
		case 8:
			steps = append(steps, message(object("tool_calls", []any{raw(object("id", call, "function", function))})))
		case 9:
			steps = append(steps, position(chatHead(which, call, name, part)))
		case 10:
			steps = append(steps, position(chatNext(which, part)))
		case 11:
			steps = append(steps, position(object("function_call", function)))
		case 12:
			steps = append(steps, ingest(object("type", eventArgumentsDelta, "call_id", call, "name", name, "delta", part, "sequence_number", n)))
		case 13:
			steps = append(steps, ingest(object("type", "function_call", "call_id", call, "name", name, "arguments", part)))
		case 14:
			text := "<use_tool><name>t</name><a>" + part + "</a></use_tool>"
			steps = append(steps, func(a *Aggregator) Result { return a.SynthesizeCalls(0, []byte(object("content", text))) })
		}
	}
	return steps
}

// FuzzTwice: ingesting anything again changes nothing, at once and when the whole
// turn comes again; and ingesting the snapshot changes nothing.
func FuzzTwice(f *testing.F) {
	f.Add([]byte{0, 0, 1, 4, 1, 8, 2, 8, 3, 8}, uint8(0))
	f.Fuzz(checkTwice)
}

// TestTwiceRandom is FuzzTwice on the same two hundred turns each time.
func TestTwiceRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 11))
	for range 200 {
		code := make([]byte, 2*r.IntN(60))
		for i := range code {
			code[i] = byte(r.IntN(256))
		}
		checkTwice(t, code, uint8(r.IntN(3)*r.IntN(40)))
	}
}

func checkTwice(t *testing.T, code []byte, limit uint8) {
	t.Helper()
	a := New(Options{MaxArgumentBytes: int(limit)})
	steps := program(code)
	var deltas []Delta
	for _, step := range steps {
		deltas = append(deltas, step(a).Deltas...)
		wantNothing(t, step(a))
	}
	wantFolded(t, a, 0, deltas)
	before := a.Snapshot(0)
	for _, step := range steps {
		wantNothing(t, step(a))
	}
	if after := a.Snapshot(0); !sameCalls(before, after) {
		t.Fatalf("the turn again changed\n%+v to\n%+v", before, after)
	}
	calls, err := json.Marshal(before)
	if err != nil {
		t.Fatal(err)
	}
	wantNothing(t, a.IngestMessage(0, []byte(`{"tool_calls":`+string(calls)+`}`)))
	if after := a.Snapshot(0); !reflect.DeepEqual(before, after) && len(before)+len(after) > 0 {
		t.Fatalf("the snapshot changed\n%+v to\n%+v", before, after)
	}
}

// sameCalls compares what a client would see.
func sameCalls(a, b []Record) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].ID != b[i].ID || a[i].Function != b[i].Function {
			return false
		}
	}
	return true
}

// FuzzEvents: no input panics, results are what they say, and nothing that was
// handed in or out is shared with the state.
func FuzzEvents(f *testing.F) {
	f.Add([]byte(itemAdded(0, 0, "fc_1", "call_1", "f")), []byte(argumentsDelta(1, 0, "fc_1", "x")))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		a := New(Options{MaxArgumentBytes: 1 << 16, MaxCalls: 64})
		deltas := map[int][]Delta{}
		take := func(r Result) {
			if r.Updated != (len(r.Deltas) > 0) {
				t.Fatalf("Updated is %v with %d deltas", r.Updated, len(r.Deltas))
			}
			for _, d := range r.Deltas {
				deltas[d.Choice] = append(deltas[d.Choice], d)
			}
		}
		for _, event := range [][]byte{first, second, first} {
			shared := bytes.Clone(event)
			take(a.Ingest(0, shared))
			take(a.SynthesizeCalls(1, shared))
			take(a.IngestEvent(2, 1, shared))
			for i := range shared {
				shared[i] ^= 0x55
			}
		}
		for choice, of := range deltas {
			wantFolded(t, a, choice, of)
			before := a.Snapshot(choice)
			handed := a.Snapshot(choice)
			clear(handed)
			if !reflect.DeepEqual(before, a.Snapshot(choice)) {
				t.Fatal("a snapshot shares memory with the state")
			}
		}
		if s := a.Stats(); s.Events != 9 {
			t.Fatalf("stats: %+v", s)
		}
	})
}
