package codexrpc

import (
	"errors"
	"strings"
	"testing"
)

func TestOutboxKeepsTheOrder(t *testing.T) {
	o := newOutbox(100)
	for _, m := range []string{"one", "two", "three"} {
		if full := o.offer([]byte(m)); full != nil {
			t.Fatalf("no room for %q", m)
		}
	}
	for _, want := range []string{"one", "two", "three"} {
		got, ok := o.next()
		if !ok || string(got) != want {
			t.Fatalf("next is %q, want %q", got, want)
		}
		o.written()
	}
	if got, ok := o.next(); ok {
		t.Errorf("next is %q", got)
	}
	if o.bytes != 0 {
		t.Errorf("%d bytes are left", o.bytes)
	}
}

// A message counts until it is written, and a full outbox says when to try
// again.
func TestOutboxIsBounded(t *testing.T) {
	o := newOutbox(10)
	if full := o.offer(make([]byte, 25)); full != nil {
		t.Fatal("a large message does not get an empty outbox")
	}
	full := o.offer(make([]byte, 1))
	if full == nil {
		t.Fatal("there is room beside it")
	}
	o.next()
	select {
	case <-full:
		t.Error("there is room before it is written")
	default:
	}
	o.written()
	<-full
	if again := o.offer(make([]byte, 10)); again != nil {
		t.Error("there is still no room")
	}
}

// Answers to the app-server fit beside the calls, but not without end.
func TestOutboxReserveForReplies(t *testing.T) {
	o := newOutbox(1000)
	if full := o.offer(make([]byte, 5000)); full != nil {
		t.Fatal("no room")
	}
	n := 0
	reply := make([]byte, 1<<20)
	var err error
	for ; err == nil && n < 100; n++ {
		err = o.reply(reply)
	}
	if !errors.Is(err, errOutboxFull) || n != maxReplies>>20+1 {
		t.Errorf("reply %d ended with %v", n, err)
	}
}

func TestClosedOutboxHoldsNothing(t *testing.T) {
	o := newOutbox(10)
	o.offer([]byte("queued"))
	o.close()
	for range 1000 {
		if full := o.offer(make([]byte, 9)); full != nil {
			t.Fatal("a call waits for room that never comes")
		}
		if err := o.reply(make([]byte, 9)); err != nil {
			t.Fatal(err)
		}
	}
	if len(o.messages) != 0 || o.bytes != 0 {
		t.Errorf("%d messages are held", len(o.messages))
	}
}

// An app-server that asks and never reads ends the connection when the
// reserve is used up, and the reader never waits for it.
func TestRepliesThatNobodyReads(t *testing.T) {
	c := newTestConn()
	c.out.limit = 1 << 20
	request := []byte(`{"id":"` + strings.Repeat("x", 1<<20) + `","method":"item/fileChange/requestApproval"}`)
	for range maxReplies>>20 + 2 {
		c.dispatch(request)
	}
	if !errors.Is(c.Err(), errOutboxFull) {
		t.Errorf("the connection has %v", c.Err())
	}
}
