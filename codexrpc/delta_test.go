package codexrpc

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
)

// decodeSlowly decodes a line as one that is not in the form of Codex's deltas.
func decodeSlowly(line []byte) (e Event, ok bool) {
	m, err := parseMessage(line, &e)
	e.size = 0
	return e, err == nil && e.Kind != "" && m.id == ""
}

// checkDelta checks that a line is no delta for parseDelta, or the one that it is as any
// other JSON. It reports whether it is one.
func checkDelta(t *testing.T, line string) bool {
	t.Helper()
	var got Event
	if !parseDelta([]byte(line), &got) {
		return false
	}
	want, known := decodeSlowly([]byte(line))
	got.size = 0
	if !known || !reflect.DeepEqual(got, want) {
		t.Errorf("%q is %+v, and slowly %+v", line, got, want)
	}
	return true
}

var deltaLines = []string{
	benchDelta("a"),
	benchDelta(""),
	benchDelta("Grüße, 你👋"),
	`{"method":"item/agentMessage/delta","params":{"threadId":"t","turnId":"u","itemId":"m","delta":"\n\t\"\\\/\u00e9 \ud83d\udc4b \ud83d"},"emittedAtMs":0}`,
	`{"method":"item/agentMessage/delta","params":{"threadId":"t","turnId":"u","itemId":"m","delta":"\\"}}`,
	`{"method":"item/reasoning/summaryTextDelta","params":{"threadId":"t","turnId":"u","itemId":"r","delta":"x","summaryIndex":12},"emittedAtMs":17}`,
	`{"method":"item/reasoning/summaryTextDelta","params":{"threadId":"t","turnId":"u","itemId":"r","delta":"x"}}`,
}

func TestDeltasOfCodex(t *testing.T) {
	for _, line := range deltaLines {
		if !checkDelta(t, line) {
			t.Errorf("%s was not read", line)
		}
	}
}

// TestDamagedDeltas cuts and changes a line at every byte: it is JSON or not read.
func TestDamagedDeltas(t *testing.T) {
	for _, line := range deltaLines {
		for at := range line {
			checkDelta(t, line[:at])
			checkDelta(t, line+line[at:])
			for _, c := range "\"\\{},:x0\x00\xff\n" {
				checkDelta(t, line[:at]+string(c)+line[at+1:])
				checkDelta(t, line[:at]+string(c)+line[at:])
			}
		}
	}
}

// FuzzDelta compares the two ways in which a delta is read.
func FuzzDelta(f *testing.F) {
	for _, line := range deltaLines {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) { checkDelta(t, line) })
}

// TestDeltasAreJoined checks that deltas that wait together come as one event, and which
// of them do not.
func TestDeltasAreJoined(t *testing.T) {
	c := newTestConn()
	thread := openTestTurn(c, "thr-1", "trn-1")
	say := func(method, item, text, more string) {
		c.dispatch(fmt.Appendf(nil, `{"method":%q,"params":{"threadId":"thr-1","turnId":"trn-1","itemId":%q,"delta":%q%s}}`, method, item, text, more))
	}
	long := strings.Repeat("x", maxJoined-1)
	say(methodTextDelta, "m1", "a", "")
	say(methodTextDelta, "m1", "b\n", "")
	say(methodReasoningDelta, "m1", "c", `,"summaryIndex":0`)
	say(methodReasoningDelta, "m1", "d", `,"summaryIndex":0`)
	say(methodReasoningDelta, "m1", "e", `,"summaryIndex":1`)
	say(methodTextDelta, "m2", "f", "")
	c.dispatch([]byte(`{"method":"item/completed","params":{"threadId":"thr-1","turnId":"trn-1","item":{"type":"agentMessage","id":"m2","text":"f"}}}`))
	say(methodTextDelta, "m2", "g", "")
	say(methodTextDelta, "m2", long, "")
	say(methodTextDelta, "m2", "h", "")
	type event struct {
		kind EventKind
		item string
		part int
		text string
	}
	var got []event
	read := func() {
		events, err := thread.Recv()
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			got = append(got, event{e.Kind, e.ItemID, e.Index, strings.ReplaceAll(e.Text, long, "…")})
		}
	}
	read()
	say(methodTextDelta, "m2", "i", "") // after a batch, a new event
	read()
	want := []event{
		{EventTextDelta, "m1", 0, "ab\n"},
		{EventReasoningDelta, "m1", 0, "cd"},
		{EventReasoningDelta, "m1", 1, "e"},
		{EventTextDelta, "m2", 0, "f"},
		{EventItemCompleted, "m2", 0, "f"},
		{EventTextDelta, "m2", 0, "g…"},
		{EventTextDelta, "m2", 0, "h"},
		{EventTextDelta, "m2", 0, "i"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestJoinedDeltasAreBounded checks that a queue of one long text overflows as any other.
func TestJoinedDeltasAreBounded(t *testing.T) {
	withPeer(t, func(t *testing.T, c *Conn, p *peer) {
		thread := openTurn(t, c, p, "thr-1", "trn-1")
		thread.queue.limit = 100_000
		for range 30_000 {
			p.delta("thr-1", "trn-1", "word ")
		}
		synctest.Wait()
		if events, err := thread.Recv(); !errors.Is(err, ErrTooSlow) || events != nil {
			t.Errorf("took %d events (%v)", len(events), err)
		}
		if thread.queue.batch != nil {
			t.Error("the text is still held")
		}
	})
}
