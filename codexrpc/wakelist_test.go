package codexrpc

import (
	"io"
	"strings"
	"testing"
)

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

// TestBeginWakesOnce checks that the caller of turn/start is woken at once, the consumer when
// all lines are read that have arrived with the answer, and nobody by the begin of a turn that
// is known.
func TestBeginWakesOnce(t *testing.T) {
	c := newTestConn()
	c.in.wakeList.transport = hasNext(true)
	thread := openTestThread(c, benchThread)
	p := c.calls.newPendingCall()
	p.callbacks = (*startingTurn)(thread)
	if err := c.calls.register(1, p); err != nil {
		t.Fatal(err)
	}
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
		if _, err := s.Read(); err != nil {
			t.Fatal(err)
		}
		if got := s.HasNext(); got != want {
			t.Errorf("%q: %t", rest, got)
		}
	}
}
