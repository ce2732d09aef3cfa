package aggregator

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
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
	must.OK(t, err)
	var events [][]byte
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, len(data)+1)
	for lines.Scan() {
		events = append(events, bytes.Clone(lines.Bytes()))
	}
	return events
}

func feed(a *Aggregator, choice int, events ...string) []Delta {
	var deltas []Delta
	for _, e := range events {
		deltas = append(deltas, a.Ingest(choice, []byte(e)).Deltas...)
	}
	return deltas
}

// wantCalls checks the names and arguments of a choice's calls, given as alternating name and arguments.
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

// The messages of the app-server, as codex 0.171 writes them.

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

// The tests of costs use a part of the largest calls that models make, since their bounds are per
// fragment and per byte: a twelfth of the fragments, a tenth of the bytes.
const (
	testFragments = 117_000 / 12
	testArgument  = 10 << 20 / 10
)

// allocated returns how many bytes and how many objects f allocates.
func allocated(f func()) (size, objects uint64) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc, after.Mallocs - before.Mallocs
}

// feeds are the ways in which one-character fragments arrive, ready made.
func feeds(n int) map[string]func(a *Aggregator) string {
	responses, chat := make([][]byte, n), make([][]byte, n)
	letters := `abc"\` // every fifth fragment is written with an escape, and another
	for i := range n {
		letter := letters[i%len(letters) : i%len(letters)+1]
		responses[i] = []byte(argumentsDelta(i+1, 0, "fc_1", letter))
		chat[i] = []byte(chatNext(0, letter))
	}
	each := func(head string, events [][]byte) func(a *Aggregator) string {
		return func(a *Aggregator) (last string) {
			a.Ingest(0, []byte(head))
			for _, event := range events {
				last = a.Ingest(0, event).Deltas[0].Arguments
			}
			return last
		}
	}
	return map[string]func(a *Aggregator) string{
		"responses": each(itemAdded(0, 0, "fc_1", "call_1", "f"), responses),
		"chat":      each(chatHead(0, "call_1", "f", ""), chat),
	}
}

// TestFragmentCost: each of 9,750 fragments of one character costs at most two
// allocations and a bounded number of bytes, though its delta has all of the
// arguments. Copies of them would be some 4,900 bytes a fragment.
func TestFragmentCost(t *testing.T) {
	most := 2.01 // the copy of its event and the slice of its delta; the growth of the buffer is a rounding error
	if info, _ := debug.ReadBuildInfo(); slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		most = 4.01 // encoding/json loses some of its pooled scanners on purpose
	}
	for shape, feed := range feeds(testFragments) {
		var got string
		size, objects := allocated(func() { got = feed(New(Options{})) })
		if len(got) != testFragments {
			t.Fatalf("%s: %d bytes", shape, len(got))
		}
		if perFragment := float64(objects) / testFragments; perFragment > most {
			t.Errorf("%s: %.3f allocations a fragment", shape, perFragment)
		}
		if perFragment := float64(size) / testFragments; perFragment > 600 {
			t.Errorf("%s: %.0f bytes a fragment", shape, perFragment)
		}
	}
}

// TestLargeArgumentCost: an argument of a megabyte costs a few copies of itself, whole or in parts.
func TestLargeArgumentCost(t *testing.T) {
	text := `{"content":"` + strings.Repeat("line\n", testArgument/5) + `"}`
	whole := []byte(rawItem("call_1", "writeToFile", text))
	var parts [][]byte
	for _, part := range cutText(text, []byte{255, 99}) {
		parts = append(parts, []byte(namedFragment("call_1", "writeToFile", part)))
	}
	for shape, feed := range map[string]func(a *Aggregator){
		"raw item": func(a *Aggregator) { a.Ingest(0, whole) },
		"parts": func(a *Aggregator) {
			for _, part := range parts {
				a.Ingest(0, part)
			}
		},
	} {
		a := New(Options{})
		size, _ := allocated(func() { feed(a) })
		if got := a.Snapshot(0)[0].Function.Arguments; got != text {
			t.Fatalf("%s: %d bytes, want %d", shape, len(got), len(text))
		}
		if copies := float64(size) / float64(len(text)); copies > 8 {
			t.Errorf("%s: %.1f times its size", shape, copies)
		}
	}
}

// TestManyCalls: of 10,000 calls those within the limit are kept, and the rest costs nothing that stays.
func TestManyCalls(t *testing.T) {
	const calls = 10_000
	a := New(Options{})
	for i := range calls {
		a.Ingest(0, []byte(rawItem(fmt.Sprint("call_", i), "f", "{}")))
	}
	if got := len(a.Snapshot(0)); got != DefaultMaxCalls {
		t.Errorf("%d calls kept", got)
	}
	if got := a.Stats().OverLimit; got != calls-DefaultMaxCalls {
		t.Errorf("%d calls over the limit", got)
	}
	a.ResetTurn()
	if !a.Ingest(0, []byte(rawItem("call", "f", ""))).Updated {
		t.Error("no room after ResetTurn")
	}

	// One message with as many, fragments of calls that were never named, and one
	// call under ever new names for itself.
	b := New(Options{MaxCalls: 10})
	b.IngestMessage(0, []byte(`{"tool_calls":[`+strings.Repeat(`{"function":{"name":"f"}},`, 9_999)+`{"function":{"name":"f"}}]}`))
	for i := range 1_000 {
		feed(b, 1, argumentsDelta(i, i, fmt.Sprint("fc_", i), "x"))
		feed(b, 2, itemAdded(i, i, fmt.Sprint("fc_", i), "call_1", "f"))
	}
	if got := len(b.Snapshot(0)); got != 10 {
		t.Errorf("%d calls kept of a message", got)
	}
	for choice := range 3 {
		s := b.choices[choice]
		keys := len(s.callsByPlace)
		for _, sharing := range s.callsByID {
			keys += len(sharing.calls)
		}
		if s.keyRoom < 0 || keys*keySize > maxKeyBytes-s.keyRoom {
			t.Errorf("choice %d holds %d keys, with room for %d bytes", choice, keys, s.keyRoom)
		}
	}
}

func TestManyChoices(t *testing.T) {
	a := New(Options{})
	for choice := range 10_000 {
		feed(a, choice, chatHead(0, "c", "f", ""))
	}
	wantNothing(t, a.Ingest(-1, []byte(chatHead(0, "c", "f", ""))))
	want := Stats{Events: 10_001, OverLimit: 10_000 - MaxChoices, Malformed: 1}
	if got := a.Stats(); got != want {
		t.Errorf("stats %+v, want %+v", got, want)
	}
	if !a.HasCalls(MaxChoices-1) || a.HasCalls(MaxChoices) {
		t.Error("other choices than the first ones were kept")
	}
}

// TestLongNames: what is too long for a name or an id is none.
func TestLongNames(t *testing.T) {
	long := strings.Repeat("n", maxNameBytes+1)
	a := New(Options{})
	must.OK(t, a.RegisterTextPattern("quoted", quoted{}))
	wantNothing(t, a.Ingest(0, []byte(chatHead(0, "c", long, ""))))
	wantNothing(t, a.Ingest(0, []byte(rawItem("c", long, ""))))
	wantNothing(t, a.SynthesizeCalls(1, []byte(object("content", "«"+long+"»"))))
	if blocks := a.ExtractBlocks("<use_tool><name>" + long + "</name></use_tool>"); len(blocks) != 0 {
		t.Errorf("a block: %.100v", blocks)
	}
	if got := a.Stats().Malformed; got != 2 {
		t.Errorf("%d malformed names counted", got)
	}
}

func TestLimitOptions(t *testing.T) {
	for _, n := range []int{-1, 0} {
		c := New(Options{MaxCalls: n, MaxArgumentBytes: n}).choice(0)
		if c.opts.MaxCalls != DefaultMaxCalls || c.argumentRoom != DefaultMaxArgumentBytes {
			t.Errorf("%d means %+v", n, c.opts)
		}
	}
	// A second call has only the room that the first one left.
	a := New(Options{MaxArgumentBytes: 5})
	feed(a, 0, chatHead(0, "c1", "f", "abc"), itemStarted("c2", "g", `{"long":1}`), chatHead(2, "c3", "h", "defg"))
	wantCalls(t, a, 0, "f", "abc", "g", "", "h", "de")
	if r := a.Snapshot(0); r[0].Truncated || !r[1].Truncated || !r[2].Truncated {
		t.Errorf("truncated: %+v", r)
	}
	// A text that is replaced gives its room back.
	b := New(Options{MaxArgumentBytes: 4})
	feed(b, 0, chatHead(0, "c1", "f", "abc"), rawItem("c1", "f", "wxyz"))
	wantCalls(t, b, 0, "f", "wxyz")
}

// TestRoomThatComesLate: what found no room is not taken up when it comes again
// and there is some, or the same event would change something twice.
func TestRoomThatComesLate(t *testing.T) {
	a := New(Options{MaxArgumentBytes: 5})
	cut, rendered := rawItem("c2", "g", "defgh"), itemStarted("c3", "h", `{"a":1}`)
	feed(a, 0, chatHead(0, "c1", "f", "abc"), cut, rendered, rawItem("c1", "f", "x"))
	wantNothing(t, a.Ingest(0, []byte(cut)))
	wantNothing(t, a.Ingest(0, []byte(rendered)))
	wantNothing(t, a.Ingest(0, []byte(itemStarted("c3", "h", "{}"))))
	wantCalls(t, a, 0, "f", "x", "g", "de", "h", "")
	if s := a.Stats(); s.Conflicts != 1 || s.Duplicates != 3 || s.OverLimit != 2 {
		t.Errorf("stats %+v", s)
	}
}

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
	must.OK(t, err)
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

func BenchmarkRecordedTurn(b *testing.B) {
	events := recording(b, "tool-burst.jsonl")
	b.ReportAllocs()
	for b.Loop() {
		a := New(Options{})
		for _, event := range events {
			a.Ingest(0, event)
		}
	}
}
