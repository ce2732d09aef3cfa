package codexrpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// quickPeer is a peer whose transport can be written to without waiting.
type quickPeer struct {
	*peer
	broken error
	writes int // without waiting
}

func (p *quickPeer) TryWrite(message []byte) (written bool, err error) {
	if p.broken != nil {
		return false, p.broken
	}
	lines := bytes.Split(bytes.Clone(message), []byte("\n"))
	if len(p.fromClient)+len(lines) > cap(p.fromClient) {
		return false, nil
	}
	p.writes++
	for _, line := range lines {
		p.fromClient <- line
	}
	return true, nil
}

// dialQuick makes a connection to such a peer, which takes some messages before it reads.
func dialQuick(t *testing.T) (*Conn, *quickPeer) {
	p := &quickPeer{peer: newPeer(t)}
	p.fromClient = make(chan []byte, 8)
	c := NewConn(p, nil)
	t.Cleanup(func() { _ = c.Close() })
	return c, p
}

// TestQuickCalls checks that calls that are written at once are answered, time out and end
// as others do, and that their lines are not mixed up.
func TestQuickCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := dialQuick(t)
		thread := openTurn(t, c, p.peer, "thr-1", "trn-1")
		for range 3 {
			if h := p.answerNext(c, t); string(h.Params) != `{"includeHidden":true}` {
				t.Errorf("called with %s", h.Params)
			}
		}
		begin, lost := time.Now(), listModels(t.Context(), c)
		p.expect(methodModelList)
		if err := <-lost; !errors.Is(err, ErrTimeout) || time.Since(begin) != callTimeout {
			t.Errorf("ended with %v after %s", err, time.Since(begin))
		}
		ctx, cancel := context.WithCancel(t.Context())
		left := listModels(ctx, c)
		p.expect(methodModelList)
		cancel()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
		p.broken = errors.New("broken pipe")
		if err := <-listModels(t.Context(), c); !errors.Is(err, ErrClosed) || !errors.Is(err, p.broken) {
			t.Errorf("ended with %v", err)
		}
		if _, err := thread.Recv(); !errors.Is(err, ErrClosed) {
			t.Errorf("the turn ended with %v", err)
		}
	})
}

// answerNext makes a call and answers it.
func (p *quickPeer) answerNext(c *Conn, t *testing.T) heard {
	done := listModels(t.Context(), c)
	h := p.expect(methodModelList)
	p.answer(h, `{"data":[]}`)
	if err := <-done; err != nil {
		t.Error(err)
	}
	return h
}

// TestQuickWritesOvertakeNothing checks that a message that can be written at once waits
// for those that the writer has.
func TestQuickWritesOvertakeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := dialQuick(t)
		for range cap(p.fromClient) {
			p.fromClient <- []byte("{}") // the pipe is full
		}
		first := async(func() error { return c.send(t.Context(), []byte(`{"method":"first"}`)) })
		synctest.Wait()
		if c.writeNow([]byte(`{"method":"second"}`)) {
			t.Fatal("the first message was overtaken")
		}
		if err := <-first; err != nil {
			t.Error(err)
		}
		for range cap(p.fromClient) {
			if h := p.hear(); h.Method != "" {
				t.Fatalf("%s was written into a full pipe", h.Method)
			}
		}
		p.expect("first")
		synctest.Wait()
		if !c.writeNow([]byte(`{"method":"second"}`)) {
			t.Error("the writer has nothing more, and still the message waits")
		}
		p.expect("second")
	})
}

// TestQuickClose checks that a thread whose turn has ended is unloaded and released once,
// whatever the app-server does, and that only a refusal for overload takes a goroutine.
func TestQuickClose(t *testing.T) {
	for name, end := range map[string]func(c *Conn, p *quickPeer, unload heard){
		"answered": func(_ *Conn, p *quickPeer, unload heard) { p.answer(unload, `{}`) },
		"refused":  func(_ *Conn, p *quickPeer, unload heard) { p.refuse(unload, -32600, "no such thread") },
		"overloaded": func(_ *Conn, p *quickPeer, unload heard) {
			p.refuse(unload, codeOverloaded, "later")
			p.answer(p.expect(methodThreadUnsubscribe), `{}`)
		},
		"silent": func(*Conn, *quickPeer, heard) { time.Sleep(closeTimeout) },
		"late": func(_ *Conn, p *quickPeer, unload heard) {
			time.Sleep(closeTimeout)
			p.answer(unload, `{}`)
		},
		"ended":  func(c *Conn, _ *quickPeer, _ heard) { c.Fail(errors.New("gone")) },
		"closed": func(c *Conn, _ *quickPeer, _ heard) { _ = c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, p := dialQuick(t)
				thread := openTurn(t, c, p.peer, "thr-1", "trn-1")
				p.completed("thr-1", "trn-1", StatusCompleted)
				synctest.Wait()
				released := closing(thread)
				unload := p.expect(methodThreadUnsubscribe)
				if string(unload.Params) != `{"threadId":"thr-1"}` || len(released) != 0 || c.Threads() != 1 {
					t.Errorf("unloads %s, released %d times", unload.Params, len(released))
				}
				end(c, p, unload)
				releasedOnce(t, released)
				if c.Threads() != 0 || len(c.calls) != 0 || c.Err() == nil && len(c.slots) != 0 {
					t.Errorf("%d threads, %d calls and %d slots are left", c.Threads(), len(c.calls), len(c.slots))
				}
				if _, err := thread.Recv(); err == nil {
					t.Error("a closed thread has events")
				}
			})
		})
	}
}

// TestUnloadsGoWithOtherCalls checks that the unloading of a thread is written together with
// the next call while calls are in flight, soon if there is none, by the writer if the pipe is
// full, and at once if the app-server has nothing to do.
func TestUnloadsGoWithOtherCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := dialQuick(t)
		var threads []*Thread
		for i := range 6 {
			threads = append(threads, openThread(t, c, p.peer, fmt.Sprintf("thr-%d", i)))
		}
		next := func() (released <-chan struct{}) {
			released, threads = closing(threads[0]), threads[1:]
			return released
		}
		unloaded := func(released <-chan struct{}) {
			t.Helper()
			p.answer(p.expect(methodThreadUnsubscribe), `{}`)
			releasedOnce(t, released)
		}
		before := p.writes
		alone := next()
		if p.writes != before+1 {
			t.Error("an app-server without calls is not told at once")
		}
		unloaded(alone)
		slow := listModels(t.Context(), c)
		h := p.expect(methodModelList)

		before = p.writes
		one, two := next(), next()
		p.silent()
		p.writes = before
		other := listModels(t.Context(), c)
		unloaded(one)
		unloaded(two)
		p.answer(p.expect(methodModelList), `{}`)
		if err := <-other; err != nil || p.writes != before+1 {
			t.Errorf("%d writes of three calls (%v)", p.writes-before, err)
		}

		begin := time.Now()
		late := next()
		p.silent()
		unloaded(late)
		if took := time.Since(begin); took != lateness {
			t.Errorf("it took %s", took)
		}
		if err := c.enqueue(t.Context(), []byte(`{"method":"nothing before it"}`)); err != nil {
			t.Error(err)
		}
		p.expect("nothing before it")

		full := next()
		for range cap(p.fromClient) {
			p.fromClient <- []byte("{}")
		}
		time.Sleep(lateness)
		for range cap(p.fromClient) {
			p.hear()
		}
		unloaded(full)

		behind := next()
		if err := c.enqueue(t.Context(), []byte(`{"method":"behind"}`)); err != nil {
			t.Error(err)
		}
		unloaded(behind)
		p.expect("behind")
		p.answer(h, `{}`)
		if err := <-slow; err != nil || len(c.late) != 0 || len(c.slots) != 0 {
			t.Errorf("%d bytes and %d slots are left (%v)", len(c.late), len(c.slots), err)
		}
	})
}

// TestUnloadsEndWithTheConnection checks that a thread whose unloading waits for another call
// is released once if the connection ends.
func TestUnloadsEndWithTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := dialQuick(t)
		thread := openThread(t, c, p.peer, "thr-1")
		slow := listModels(t.Context(), c)
		p.expect(methodModelList)
		released := closing(thread)
		p.silent()
		_ = c.Close()
		releasedOnce(t, released)
		if err := <-slow; !errors.Is(err, ErrClosed) {
			t.Errorf("ended with %v", err)
		}
		time.Sleep(2 * lateness)
		p.silent()
	})
}

// TestManyUnloads checks that few unloadings wait, so that calls find free slots.
func TestManyUnloads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := dialQuick(t)
		p.fromClient = make(chan []byte, maxInFlight)
		var released []<-chan struct{}
		var threads []*Thread
		for i := range maxInFlight - 1 {
			threads = append(threads, openThread(t, c, p.peer, fmt.Sprintf("thread-%d-%s", i, benchThread)))
		}
		listModels(t.Context(), c)
		p.expect(methodModelList)
		for _, thread := range threads {
			released = append(released, closing(thread))
		}
		if len(c.late) > maxLate || len(p.fromClient) < maxInFlight/2 {
			t.Errorf("%d bytes wait, %d are written", len(c.late), len(p.fromClient))
		}
		for _, r := range released {
			p.answer(p.expect(methodThreadUnsubscribe), `{}`)
			releasedOnce(t, r)
		}
	})
}

// TestQuickCloseBreaks checks that a thread is released once if its connection ends while
// its unloading is written.
func TestQuickCloseBreaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := dialQuick(t)
		thread := openTurn(t, c, p.peer, "thr-1", "trn-1")
		p.completed("thr-1", "trn-1", StatusCompleted)
		synctest.Wait()
		p.broken = errors.New("broken pipe")
		releasedOnce(t, closing(thread))
		if c.Threads() != 0 || len(c.calls) != 0 {
			t.Errorf("%d threads and %d calls are left", c.Threads(), len(c.calls))
		}
	})
}

// TestQuickCloseInATurn checks that a thread with a turn, or with a parked call, still is
// closed step by step.
func TestQuickCloseInATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := dialQuick(t)
		thread := openTurn(t, c, p.peer, "thr-1", "trn-1")
		p.say(`{"id":0,"method":"item/tool/call","params":{"threadId":"thr-1","turnId":"trn-1","callId":"c"}}`)
		synctest.Wait()
		released := closing(thread)
		p.answer(p.expect(methodTurnInterrupt), `{}`)
		p.completed("thr-1", "trn-1", StatusInterrupted)
		if h := p.hear(); string(h.ID) != "0" {
			t.Errorf("answered %+v", h)
		}
		p.answer(p.expect(methodThreadUnsubscribe), `{}`)
		releasedOnce(t, released)
	})
}
