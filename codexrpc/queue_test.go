package codexrpc

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"unsafe"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

func newQueue() *queue {
	q := new(queue)
	q.init(new(wakeList))
	return q
}

// A consumer that never reads loses its own turn and no other.
func TestSlowConsumerEndsItsOwnTurnOnly(t *testing.T) {
	withPeer(t, func(t *testing.T, c *Conn, p *peer) {
		slow, other := openTurn(t, c, p, "thr-1", "trn-1"), openTurn(t, c, p, "thr-2", "trn-2")
		slow.queue.limit = 100_000
		for range 11 {
			p.delta("thr-1", "trn-1", strings.Repeat("x", 10_000))
		}
		p.delta("thr-2", "trn-2", "still served")
		if got := texts(t, other); got != "still served" {
			t.Errorf("the other took %.100q", got)
		}
		if events, err := slow.Recv(); !errors.Is(err, ErrTooSlow) || events != nil {
			t.Errorf("the slow one took %d events (%v)", len(events), err)
		}
		if slow.queue.batch != nil {
			t.Error("room for events is still held")
		}
		// The end of the turn is noted all the same: it needs no interrupt.
		p.completed("thr-1", "trn-1", StatusCompleted)
		synctest.Wait()
		slow.Close(nil)
		p.answer(p.expect(methodThreadUnsubscribe), `{}`)
	})
}

// TestManySmallEventsAreBounded checks that small events count with their overhead.
func TestManySmallEventsAreBounded(t *testing.T) {
	q := newQueue()
	q.limit = 1 << 20
	n := 0
	for q.push(&Event{size: 1}); q.err == nil; q.push(&Event{size: 1}) {
		n++
	}
	if most := q.limit / eventOverhead; n > most {
		t.Errorf("held %d events, want %d at most", n, most)
	}
	if size := int(unsafe.Sizeof(Event{})); size > eventOverhead {
		t.Errorf("an event takes %d bytes, more than the %d that count", size, eventOverhead)
	}
}

// TestQueueSwapsBatches checks that events that are pushed while a batch is read come
// with the next one, in order, and that the memory of a spent batch is cleared.
func TestQueueSwapsBatches(t *testing.T) {
	q := newQueue()
	push := func(texts ...string) {
		for _, text := range texts {
			q.push(&Event{Kind: EventTextDelta, Text: text})
		}
	}
	push("a", "b", "c")
	first, _, err := q.recv()
	if err != nil || len(first) != 3 {
		t.Fatalf("took %d (%v)", len(first), err)
	}
	push("d")
	second, _, err := q.recv()
	if err != nil || len(second) != 1 || second[0].Text != "d" {
		t.Fatalf("took %+v (%v)", second, err)
	}
	if first[0].Text != "" || first[2].Text != "" {
		t.Error("a spent batch holds its events")
	}
	if third, _, err := q.recv(); err != nil || third != nil {
		t.Errorf("took %+v (%v) from an empty queue", third, err)
	}
	if second[0].Text != "" || q.consumerBatch != nil || q.batch != nil {
		t.Error("an empty queue holds memory for events")
	}
}

// The events before a failure are received before the error.
func TestQueueGivesTheRestBeforeItsError(t *testing.T) {
	q := newQueue()
	cause, later := errors.New("cause"), errors.New("later")
	q.push(&Event{Kind: EventTextDelta})
	q.fail(cause)
	q.fail(later)
	q.push(&Event{Kind: EventTextDelta}) // after the end
	if err := q.errIfEmpty(); err != nil {
		t.Errorf("ended with %v though something is left", err)
	}
	if events, _, err := q.recv(); len(events) != 1 || err != nil {
		t.Errorf("took %d (%v)", len(events), err)
	}
	for range 2 {
		if events, _, err := q.recv(); len(events) != 0 || !errors.Is(err, cause) {
			t.Errorf("took %d (%v)", len(events), err)
		}
	}
	if err := q.errIfEmpty(); !errors.Is(err, cause) {
		t.Errorf("ended with %v", err)
	}
}

// TestQueueWakesForTheEnd checks that a consumer that waits after each batch also gets
// the error, if one signal stood for the last event and the end.
func TestQueueWakesForTheEnd(t *testing.T) {
	q := newQueue()
	q.push(&Event{Kind: EventTextDelta})
	q.fail(errors.New("the end"))
	<-q.wake
	if events, _, err := q.recv(); len(events) != 1 || err != nil {
		t.Errorf("took %d (%v)", len(events), err)
	}
	select {
	case <-q.wake:
	default:
		t.Error("nobody is woken for the end")
	}
}

// TestOfTurn checks that eventsOfTurn keeps the order and clears what it drops.
func TestOfTurn(t *testing.T) {
	events := []Event{{turnID: "x", Text: "1"}, {turnID: "a", Text: "2"}, {turnID: "y", Text: "3"}, {turnID: "a", Text: "4"}}
	kept := eventsOfTurn(events, "a")
	if len(kept) != 2 || kept[0].Text != "2" || kept[1].Text != "4" {
		t.Errorf("kept %+v", kept)
	}
	for _, e := range events[2:] {
		if e.Text != "" {
			t.Errorf("%+v is still held", e)
		}
	}
}

// TestWakesOfLinesTogether checks that the consumers of lines that have arrived together are
// woken at the end of these, each once, but not later than after some lines.
func TestWakesOfLinesTogether(t *testing.T) {
	c := newTestConn()
	one, other := openTestTurn(c, "thr-1", "trn-1"), openTestTurn(c, "thr-2", "trn-2")
	delta := func(thread, turn string) []byte {
		return []byte(strings.NewReplacer(benchThread, thread, benchTurn, turn).Replace(benchDelta("word ")))
	}
	woken := func() (n int) {
		for _, thread := range []*Thread{one, other} {
			select {
			case <-thread.Ready():
				n++
			default:
			}
		}
		return n
	}
	woken() // by their begins
	read := func(line []byte, more bool) {
		c.in.wakeList.transport = hasNext(more)
		c.dispatch(line)
		c.in.wakeList.lineRead()
	}
	for range 3 {
		read(delta("thr-1", "trn-1"), true)
		read(delta("thr-2", "trn-2"), true)
	}
	if n := woken(); n != 0 {
		t.Errorf("%d consumers are woken while more lines are there", n)
	}
	read([]byte(`{"method":"future"}`), false)
	if n := woken(); n != 2 {
		t.Errorf("%d consumers are woken at the end, want both", n)
	}
	if _, err := one.Recv(); err != nil { // so that a delta joins nothing
		t.Fatal(err)
	}
	for i := range maxLinesBeforeWake {
		if n := woken(); n != 0 {
			t.Fatalf("woken after %d lines", i)
		}
		if i > 0 {
			read([]byte(`{"method":"future"}`), true)
		} else {
			read(delta("thr-1", "trn-1"), true)
		}
	}
	if n := woken(); n != 1 {
		t.Errorf("%d consumers are woken after %d lines", n, maxLinesBeforeWake)
	}
}

// The caller of turn/start is woken at once, the consumer when all lines are read that have arrived
// with the answer, and nobody by the begin of a turn that is known.
func TestBeginWakesOnce(t *testing.T) {
	c := newTestConn()
	c.in.wakeList.transport = hasNext(true)
	thread := openTestThread(c, benchThread)
	p := &pendingCall{outcome: make(chan error, 1)}
	p.onSent, p.onAnswer = thread.turnSent, thread.turnAnswered
	must.OK(t, c.calls.register(1, p))
	lines := benchTurnLines()
	for _, line := range append([]string{`{"id":1,"result":{"turn":{"id":"` + benchTurn + `"}}}`}, lines...) {
		c.dispatch([]byte(line))
		c.in.wakeList.lineRead()
		if len(p.outcome) != 1 || len(thread.Ready()) != 0 {
			t.Errorf("after %s the caller is woken %d times, the consumer %d times", line, len(p.outcome), len(thread.Ready()))
		}
	}
	c.in.wakeList.transport = hasNext(false)
	c.in.wakeList.lineRead()
	if len(thread.Ready()) != 1 {
		t.Error("the consumer is not woken")
	}
	<-thread.Ready()
	if events, err := thread.Recv(); len(events) != 5 || err != nil {
		t.Errorf("took %+v (%v)", events, err)
	}
	c.dispatch([]byte(lines[0]))
	if len(thread.Ready()) != 0 {
		t.Error("woken by the begin of a turn that is known")
	}
}

// hasNext is a transport that has another message, or none.
type hasNext bool

func (h hasNext) HasNext() bool { return bool(h) }

// TestHasNext checks that only a whole line that Read returns counts.
func TestHasNext(t *testing.T) {
	for rest, want := range map[string]bool{
		"{}\n": true, "{}\n{": true, "": false, "{": false, "\n": false, " \n{}\n": false, "\n{}\n": false,
	} {
		s := NewStdio(io.NopCloser(strings.NewReader("first\n"+rest)), nil)
		if s.HasNext() {
			t.Errorf("%q: a line is there that was not read from the pipe", rest)
		}
		must.OK(t, errOf(s.Read()))
		if got := s.HasNext(); got != want {
			t.Errorf("%q: %t", rest, got)
		}
	}
}
