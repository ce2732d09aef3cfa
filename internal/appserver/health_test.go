package appserver

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// The bounds of what becomes of a hung app-server on this machine.
const (
	noticed = probeEvery + probeWait
	givenUp = probeEvery + maxMissed*probeWait
)

// TestHungProcess checks that an app-server that hangs becomes unresponsive, is killed and started
// again, that its turns end, and that a waiting caller gets the new connection.
func TestHungProcess(t *testing.T) {
	inBubble(t, func(t *testing.T, p *Process, d *doubles) {
		var seen []State
		p.SetObserver(func(s Status) { seen = append(seen, s.State) })
		c := conn(t, p)
		done, cut := open(t, c), open(t, c)
		hung := d.last()
		hung.completed(1)
		synctest.Wait()
		hung.freeze()
		begin := time.Now()
		s := awaitState(t, p, StateUnresponsive)
		if took := time.Since(begin); took > noticed {
			t.Errorf("noticed after %s", took)
		}
		if !strings.Contains(s.Reason, "silent for 4s") || s.Threads != 2 || s.PID != 1 {
			t.Errorf("it is %+v", s)
		}
		again := conn(t, p)
		if took := time.Since(begin); took > givenUp || again == c || !hung.wasKilled() {
			t.Errorf("another connection (%t) after %s; the old one was killed: %t", again != c, took, hung.wasKilled())
		}
		if err := takeToEnd(t, cut); !errors.Is(err, codexrpc.ErrUnresponsive) || !errors.Is(err, codexrpc.ErrClosed) {
			t.Errorf("a turn ended with %v", err)
		}
		if s := p.Status(); s.Restarts != 1 || s.State != StateReady {
			t.Errorf("it became %+v", s)
		}
		synctest.Wait() // for the observer
		if want := []State{StateUnresponsive, StateStopping, StateStarting, StateReady}; !slices.Equal(seen, want) {
			t.Errorf("it was %v, want %v", seen, want)
		}
		closed(done)
	})
}

// An app-server that answers again in time keeps its turns.
func TestHungProcessGoesOn(t *testing.T) {
	inBubble(t, func(t *testing.T, p *Process, d *doubles) {
		c := conn(t, p)
		thread := open(t, c)
		d.last().freeze()
		awaitState(t, p, StateUnresponsive)
		time.Sleep((maxMissed-1)*probeWait - time.Second)
		d.last().thaw()
		if again := conn(t, p); again != c {
			t.Error("another connection was made")
		}
		d.last().completed(1)
		synctest.Wait()
		events, err := thread.Recv()
		if err != nil || len(events) != 1 || events[0].Kind != codexrpc.EventTurnCompleted {
			t.Errorf("of its turn came %+v (%v)", events, err)
		}
		time.Sleep(time.Hour)
		if s := p.Status(); s.State != StateReady || s.Restarts != 0 || s.Reason != "" || d.last().wasKilled() {
			t.Errorf("it became %+v", s)
		}
	})
}

// A draining app-server that hangs is killed and its turns end.
func TestHungWhileItDrains(t *testing.T) {
	inBubble(t, func(t *testing.T, p *Process, d *doubles) {
		old := d.last()
		thread := open(t, conn(t, p))
		must.OK(t, p.Restart())
		awaitReplacements(t, p, 1)
		old.freeze()
		if err := takeToEnd(t, thread); !errors.Is(err, codexrpc.ErrUnresponsive) {
			t.Errorf("its turn ended with %v", err)
		}
		awaitDrained(t, p)
		if s := p.Status(); !old.wasKilled() || s.State != StateReady || s.Restarts != 0 {
			t.Errorf("killed: %t, and the process is %+v", old.wasKilled(), s)
		}
	})
}

// TestHungProcessIsReplaced checks that Restart replaces an unresponsive app-server.
func TestHungProcessIsReplaced(t *testing.T) {
	inBubble(t, func(t *testing.T, p *Process, d *doubles) {
		d.last().freeze()
		awaitState(t, p, StateUnresponsive)
		must.OK(t, p.Restart())
		awaitReplacements(t, p, 1)
		conn(t, p)
		if s := p.Status(); s.State != StateReady || s.Reason != "" || s.PID != 2 || s.Restarts != 0 {
			t.Errorf("it became %+v", s)
		}
	})
}

// A refusal counts as an answer: not every release knows server/diagnostics.
func TestRefusedProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, d := newDoubles(t)
		d.is = words("refuses:" + methodDiagnostics)
		p.Start()
		conn(t, p)
		time.Sleep(time.Hour)
		if s := p.Status(); s.State != StateReady || s.Restarts != 0 {
			t.Errorf("it became %+v", s)
		}
		if n := d.last().called(methodDiagnostics); n < 1000 {
			t.Errorf("it was probed %d times", n)
		}
	})
}

// An app-server that leaves calls of one method unanswered is replaced.
func TestMuteMethods(t *testing.T) {
	use := map[string]func(t *testing.T, c *codexrpc.Conn){
		methodThreadStart: func(t *testing.T, c *codexrpc.Conn) {
			if _, err := c.StartThread(t.Context(), codexrpc.ThreadStartParams{}); !errors.Is(err, codexrpc.ErrTimeout) {
				t.Errorf("got %v", err)
			}
		},
		methodThreadInject: func(t *testing.T, c *codexrpc.Conn) {
			thread := startThread(t, c)
			if err := thread.InjectItems(t.Context(), nil); !errors.Is(err, codexrpc.ErrTimeout) {
				t.Errorf("got %v", err)
			}
			thread.Close(nil)
		},
		methodTurnStart: func(t *testing.T, c *codexrpc.Conn) {
			thread := startThread(t, c)
			if err := thread.StartTurn(t.Context(), codexrpc.TurnStartParams{}); !errors.Is(err, codexrpc.ErrTimeout) {
				t.Errorf("got %v", err)
			}
			thread.Close(nil)
		},
		methodTurnInterrupt: func(t *testing.T, c *codexrpc.Conn) {
			open(t, c).Close(nil)
		},
		methodThreadUnsubscribe: func(t *testing.T, c *codexrpc.Conn) {
			startThread(t, c).Close(nil)
		},
	}
	for method, use := range use {
		t.Run(strings.ReplaceAll(method, "/", "_"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, d := newDoubles(t)
				d.is = words("mute:" + method)
				p.Start()
				c := conn(t, p)
				old := d.last()
				d.mu.Lock()
				d.is = nil // of the next one
				d.mu.Unlock()
				use(t, c)
				time.Sleep(20 * time.Second) // as long as closing a thread may take
				if s := p.Status(); s.State != StateReady || s.Replacements != 0 {
					t.Errorf("after one call it is %+v", s)
				}
				use(t, c)
				awaitReplacements(t, p, 1)
				fresh := conn(t, p)
				if fresh == c {
					t.Fatal("it serves on")
				}
				closed(open(t, fresh))
				time.Sleep(2 * time.Minute) // as long as the end of a turn is waited for
				awaitDrained(t, p)
				if s := p.Status(); s.State != StateReady || s.Restarts != 0 || s.Replacements != 1 || !old.wasKilled() {
					t.Errorf("it became %+v", s)
				}
			})
		})
	}
}

func startThread(t *testing.T, c *codexrpc.Conn) *codexrpc.Thread {
	t.Helper()
	thread, err := c.StartThread(t.Context(), codexrpc.ThreadStartParams{})
	must.OK(t, err)
	return thread
}

// Replacements are limited if each fresh app-server leaves calls unanswered, too.
func TestUnansweredForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, d := newDoubles(t)
		d.is = words("mute:" + methodThreadStart)
		p.Start()
		for end := time.Now().Add(time.Hour); time.Now().Before(end); {
			if _, err := conn(t, p).StartThread(t.Context(), codexrpc.ThreadStartParams{}); !errors.Is(err, codexrpc.ErrTimeout) && !errors.Is(err, codexrpc.ErrClosed) {
				t.Errorf("got %v", err)
			}
		}
		if s := p.Status(); s.Replacements < 2 || s.Replacements > int(time.Hour/replaceEvery) {
			t.Errorf("in an hour it became %+v", s)
		}
	})
}

// An app-server that never answers probes is kept as long as it does other things.
func TestMuteProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, d := newDoubles(t)
		d.is = words("mute:" + methodDiagnostics)
		p.Start()
		c := conn(t, p)
		for range 30 {
			time.Sleep(probeWait / 2)
			closed(open(t, c))
		}
		if s := p.Status(); s.State != StateReady || s.Restarts != 0 {
			t.Errorf("while it works it is %+v", s)
		}
		begin := time.Now()
		<-c.Done()
		if took := time.Since(begin); took > givenUp+probeWait || !errors.Is(c.Err(), codexrpc.ErrUnresponsive) {
			t.Errorf("when it did nothing more, it was given up after %s: %v", took, c.Err())
		}
	})
}
