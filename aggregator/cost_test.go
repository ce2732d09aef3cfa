package aggregator

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// The benchmarks use the sizes of the largest calls that models make. For the tests,
// whose bounds are per fragment and per byte, a part of that is enough.
const (
	manyFragments = 117_000
	largeArgument = 10 << 20
	testFragments = manyFragments / 12
	testArgument  = largeArgument / 10
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
	for shape, feed := range feeds(testFragments) {
		var got string
		size, objects := allocated(func() { got = feed(New(Options{})) })
		if len(got) != testFragments {
			t.Fatalf("%s: %d bytes", shape, len(got))
		}
		if perFragment := float64(objects) / testFragments; perFragment > maxFragmentAllocs {
			t.Errorf("%s: %.3f allocations a fragment", shape, perFragment)
		}
		if perFragment := float64(size) / testFragments; perFragment > 600 {
			t.Errorf("%s: %.0f bytes a fragment", shape, perFragment)
		}
	}
}

// TestLargeArgumentCost: an argument of a megabyte costs a few copies of itself, whole
// or in parts.
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

// TestManyCalls: of 10,000 calls those within the limit are kept, and the rest
// costs nothing that stays.
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
	if err := a.RegisterTextPattern("quoted", quoted{}); err != nil {
		t.Fatal(err)
	}
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
