package codexrpc

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

func closing(thread *Thread) <-chan struct{} {
	released := make(chan struct{}, 2)
	thread.Close(func() { released <- struct{}{} })
	return released
}

// releasedOnce waits for the release and checks that there is no second one.
func releasedOnce(t *testing.T, released <-chan struct{}) {
	t.Helper()
	<-released
	synctest.Wait()
	select {
	case <-released:
		t.Error("released twice")
	default:
	}
}

// A thread without a turn, or whose turn has ended, is unloaded and released once, whatever the
// app-server does. Its turn is not interrupted, although nobody has received its last event.
func TestCloseReleasesOnce(t *testing.T) {
	for name, end := range map[string]func(c *Conn, p *peer, unload heard){
		"answered": func(_ *Conn, p *peer, unload heard) { p.answer(unload, `{}`) },
		"refused":  func(_ *Conn, p *peer, unload heard) { p.refuse(unload, -32600, "no such thread") },
		"overloaded": func(_ *Conn, p *peer, unload heard) {
			p.refuse(unload, codeOverloaded, "later")
			p.answer(p.expect(methodThreadUnsubscribe), `{}`)
		},
		"silent": func(*Conn, *peer, heard) { time.Sleep((finishTimeout + closeTimeout)) },
		"late": func(_ *Conn, p *peer, unload heard) {
			time.Sleep(closeTimeout)
			p.answer(unload, `{}`)
		},
		"ended":  func(c *Conn, _ *peer, _ heard) { c.Fail(errors.New("gone")) },
		"closed": func(c *Conn, _ *peer, _ heard) { _ = c.Close() },
		"idle":   func(_ *Conn, p *peer, unload heard) { p.answer(unload, `{}`) },
	} {
		t.Run(name, func(t *testing.T) {
			withPeer(t, func(t *testing.T, c *Conn, p *peer) {
				thread := openThread(t, c, p, "thr-1")
				if name != "idle" {
					startTurn(t, p, thread, "trn-1")
					p.completed("thr-1", "trn-1", StatusCompleted)
					synctest.Wait()
				}
				released := closing(thread)
				unload := p.expect(methodThreadUnsubscribe)
				if string(unload.Params) != `{"threadId":"thr-1"}` || len(released) != 0 || c.Threads() != 1 {
					t.Errorf("unloads %s, released %d times", unload.Params, len(released))
				}
				end(c, p, unload)
				releasedOnce(t, released)
				if c.Threads() != 0 || len(c.calls.registered) != 0 || c.Err() == nil && len(c.calls.slots) != 0 {
					t.Errorf("%d threads, %d calls and %d slots are left", c.Threads(), len(c.calls.registered), len(c.calls.slots))
				}
				if _, err := thread.Recv(); err == nil {
					t.Error("a closed thread has events")
				}
			})
		})
	}
}

// TestCloseInATurn checks the order for an abandoned turn with tool calls: the
// interruption, the end of the turn, the answers to the calls, and the unloading.
func TestCloseInATurn(t *testing.T) {
	withPeer(t, func(t *testing.T, c *Conn, p *peer) {
		thread := openTurn(t, c, p, "thr-1", "trn-1")
		toolCall := `{"id":%d,"method":"item/tool/call","params":{"threadId":"thr-1","turnId":"trn-1","callId":"c","tool":"find","arguments":{}}}`
		p.say(toolCall, 0)
		p.say(toolCall, 1)
		p.silent()
		released := closing(thread)
		interrupt := p.expect(methodTurnInterrupt)
		if string(interrupt.Params) != `{"threadId":"thr-1","turnId":"trn-1"}` {
			t.Errorf("interrupted %s", interrupt.Params)
		}
		p.say(toolCall, 2) // the model was not finished
		p.delta("thr-1", "trn-1", "nobody takes it")
		p.completed("thr-1", "another turn", StatusCompleted)
		p.answer(interrupt, `{}`)
		p.silent()
		p.completed("thr-1", "trn-1", StatusInterrupted)
		for id := range 3 {
			if h := p.hear(); string(h.ID) != fmt.Sprint(id) || string(h.Result) != `{"contentItems":[],"success":false}` {
				t.Errorf("answered %+v", h)
			}
		}
		unload := p.expect(methodThreadUnsubscribe)
		p.say(toolCall, 3) // too late to wait
		if h := p.hear(); string(h.ID) != "3" {
			t.Errorf("answered %+v", h)
		}
		p.answer(unload, `{}`)
		releasedOnce(t, released)
		if _, err := thread.Recv(); err == nil {
			t.Error("a closed thread has events")
		}
	})
}

// A turn without a known id is interrupted.
func TestInterruptBeforeTheTurnHasAnID(t *testing.T) {
	withPeer(t, func(t *testing.T, c *Conn, p *peer) {
		thread := openThread(t, c, p, "thr-1")
		ctx, cancel := context.WithCancel(t.Context())
		done := async(func() error { return thread.StartTurn(ctx, TurnStartParams{}) })
		start := p.expect(methodTurnStart)
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
		released := closing(thread)
		interrupt := p.expect(methodTurnInterrupt)
		if string(interrupt.Params) != `{"threadId":"thr-1","turnId":""}` {
			t.Errorf("interrupted %s", interrupt.Params)
		}
		p.answer(start, `{"turn":{"id":"trn-1"}}`)
		p.answer(interrupt, `{}`)
		p.silent()
		p.completed("thr-1", "trn-1", StatusInterrupted)
		p.answer(p.expect(methodThreadUnsubscribe), `{}`)
		releasedOnce(t, released)
	})
}

// Close does not wait for the end of a turn whose turn/start was refused after its caller had left.
func TestRefusalAfterTheCallerLeft(t *testing.T) {
	withPeer(t, func(t *testing.T, c *Conn, p *peer) {
		thread := openThread(t, c, p, "thr-1")
		ctx, cancel := context.WithCancel(t.Context())
		done := async(func() error { return thread.StartTurn(ctx, TurnStartParams{}) })
		start := p.expect(methodTurnStart)
		cancel()
		<-done
		released := closing(thread)
		begin := time.Now()
		interrupt := p.expect(methodTurnInterrupt)
		p.refuse(start, -32602, "input too large")
		p.refuse(interrupt, -32600, "no active turn")
		p.answer(p.expect(methodThreadUnsubscribe), `{}`)
		releasedOnce(t, released)
		if took := time.Since(begin); took != 0 {
			t.Errorf("it took %s", took)
		}
	})
}

// The end of a turn that refuses its interruption is awaited for a moment.
func TestRefusedInterrupt(t *testing.T) {
	for _, late := range []bool{true, false} {
		t.Run(fmt.Sprintf("end_comes_%t", late), func(t *testing.T) {
			withPeer(t, func(t *testing.T, c *Conn, p *peer) {
				thread := openTurn(t, c, p, "thr-1", "trn-1")
				released := closing(thread)
				begin := time.Now()
				p.refuse(p.expect(methodTurnInterrupt), -32600, "no active turn")
				p.silent()
				if late {
					p.completed("thr-1", "trn-1", StatusCompleted)
				}
				p.answer(p.expect(methodThreadUnsubscribe), `{}`)
				releasedOnce(t, released)
				if took := time.Since(begin); late && took != 0 || !late && took != refusedGrace {
					t.Errorf("it took %s", took)
				}
			})
		})
	}
}

// A turn that does not end is unloaded after a while.
func TestTurnThatDoesNotEnd(t *testing.T) {
	withPeer(t, func(t *testing.T, c *Conn, p *peer) {
		thread := openTurn(t, c, p, "thr-1", "trn-1")
		p.say(`{"id":0,"method":"item/tool/call","params":{"threadId":"thr-1"}}`)
		begin := time.Now()
		released := closing(thread)
		p.answer(p.expect(methodTurnInterrupt), `{}`)
		if h := p.hear(); string(h.ID) != "0" || time.Since(begin) != finishTimeout {
			t.Errorf("answered %+v after %s", h, time.Since(begin))
		}
		p.expect(methodThreadUnsubscribe) // and that is not answered, either
		releasedOnce(t, released)
		if took := time.Since(begin); took != (finishTimeout + closeTimeout) {
			t.Errorf("it took %s, want %s", took, (finishTimeout + closeTimeout))
		}
		if n := c.Threads(); n != 0 {
			t.Errorf("%d threads are left", n)
		}
	})
}

// The release is called when the connection ends or has ended.
func TestCloseOnADeadConnection(t *testing.T) {
	withPeer(t, func(t *testing.T, c *Conn, p *peer) {
		one, two := openTurn(t, c, p, "thr-1", "trn-1"), openTurn(t, c, p, "thr-2", "trn-2")
		released := closing(one)
		p.expect(methodTurnInterrupt)
		close(p.toClient)
		releasedOnce(t, released)
		releasedOnce(t, closing(two))
	})
}

func TestReleaseMayCloseTheConnection(t *testing.T) {
	withPeer(t, func(t *testing.T, c *Conn, p *peer) {
		closed := make(chan error, 1)
		openThread(t, c, p, "thr-1").Close(func() { closed <- c.Close() })
		p.answer(p.expect(methodThreadUnsubscribe), `{}`)
		must.OK(t, <-closed)
	})
}

// A caller can receive the end of a turn that it has interrupted.
func TestInterruptThatIsAwaited(t *testing.T) {
	withPeer(t, func(t *testing.T, c *Conn, p *peer) {
		thread := openTurn(t, c, p, "thr-1", "trn-1")
		done := async(func() error { return thread.Interrupt(t.Context()) })
		p.answer(p.expect(methodTurnInterrupt), `{}`)
		must.OK(t, <-done)
		p.completed("thr-1", "trn-1", StatusInterrupted)
		synctest.Wait()
		events, err := thread.Recv()
		if err != nil || len(events) != 1 || events[0].Status != StatusInterrupted {
			t.Errorf("took %+v (%v)", events, err)
		}
	})
}

// TestParkedCallsAreBounded checks that calls above the bound are answered at once.
func TestParkedCallsAreBounded(t *testing.T) {
	withPeer(t, func(t *testing.T, c *Conn, p *peer) {
		openTurn(t, c, p, "thr-1", "trn-1")
		for id := range maxParked {
			p.say(`{"id":%d,"method":"item/tool/call","params":{"threadId":"thr-1"}}`, id)
		}
		p.silent()
		p.say(`{"id":%d,"method":"item/tool/call","params":{"threadId":"thr-1"}}`, maxParked)
		if h := p.hear(); string(h.ID) != fmt.Sprint(maxParked) {
			t.Errorf("answered %+v", h)
		}
	})
}
