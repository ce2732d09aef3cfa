package codexrpc

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The bounds of what becomes of a hung app-server on this machine.
const (
	noticed = beatEvery + beatWait
	givenUp = beatEvery + maxMissed*beatWait
)

// A process that hangs is unresponsive, then killed and started again. Its turns
// end, and who waits for a connection meanwhile gets the new one.
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
		if err := takeToEnd(t, cut); !errors.Is(err, ErrUnresponsive) || !errors.Is(err, ErrClosed) {
			t.Errorf("a turn ended with %v", err)
		}
		if s := p.Status(); s.Restarts != 1 || s.State != StateReady {
			t.Errorf("it became %+v", s)
		}
		if want := []State{StateUnresponsive, StateStopping, StateStarting, StateReady}; !slices.Equal(seen, want) {
			t.Errorf("it was %v, want %v", seen, want)
		}
		closed(done)
	})
}

// A process that goes on before it is given up has lost nothing.
func TestHungProcessGoesOn(t *testing.T) {
	inBubble(t, func(t *testing.T, p *Process, d *doubles) {
		c := conn(t, p)
		thread := open(t, c)
		d.last().freeze()
		awaitState(t, p, StateUnresponsive)
		time.Sleep((maxMissed-1)*beatWait - time.Second)
		d.last().thaw()
		if again := conn(t, p); again != c {
			t.Error("another connection was made")
		}
		d.last().completed(1)
		synctest.Wait()
		events, err := thread.Take(nil)
		if err != nil || len(events) != 1 || events[0].Kind != EventTurnCompleted {
			t.Errorf("of its turn came %+v (%v)", events, err)
		}
		time.Sleep(time.Hour)
		if s := p.Status(); s.State != StateReady || s.Restarts != 0 || s.Reason != "" || d.last().wasKilled() {
			t.Errorf("it became %+v", s)
		}
	})
}

// An instance that hangs while it drains is killed as well, and its turns end.
func TestHungWhileItDrains(t *testing.T) {
	inBubble(t, func(t *testing.T, p *Process, d *doubles) {
		old := d.last()
		thread := open(t, conn(t, p))
		if err := p.Restart(); err != nil {
			t.Fatal(err)
		}
		awaitReplacements(t, p, 1)
		old.freeze()
		if err := takeToEnd(t, thread); !errors.Is(err, ErrUnresponsive) {
			t.Errorf("its turn ended with %v", err)
		}
		awaitDrained(t, p)
		if s := p.Status(); !old.wasKilled() || s.State != StateReady || s.Restarts != 0 {
			t.Errorf("killed: %t, and the process is %+v", old.wasKilled(), s)
		}
	})
}

// A replacement by order helps a process that is unresponsive, too.
func TestHungProcessIsReplaced(t *testing.T) {
	inBubble(t, func(t *testing.T, p *Process, d *doubles) {
		d.last().freeze()
		awaitState(t, p, StateUnresponsive)
		if err := p.Restart(); err != nil {
			t.Fatal(err)
		}
		awaitReplacements(t, p, 1)
		conn(t, p)
		if s := p.Status(); s.State != StateReady || s.Reason != "" || s.PID != 2 || s.Restarts != 0 {
			t.Errorf("it became %+v", s)
		}
	})
}

// A refusal is an answer: not every release knows the method.
func TestRefusedProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, d := newDoubles(t)
		d.refuse = map[string]bool{methodDiagnostics: true}
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

// An app-server that leaves one method unanswered does not stay the one that takes
// new turns.
func TestMuteMethods(t *testing.T) {
	use := map[string]func(t *testing.T, c *Conn){
		methodThreadStart: func(t *testing.T, c *Conn) {
			if _, err := c.StartThread(t.Context(), ThreadStartParams{}); !errors.Is(err, ErrTimeout) {
				t.Errorf("got %v", err)
			}
		},
		methodThreadInject: func(t *testing.T, c *Conn) {
			thread := startThread(t, c)
			if err := thread.InjectItems(t.Context(), nil); !errors.Is(err, ErrTimeout) {
				t.Errorf("got %v", err)
			}
			thread.Close(nil)
		},
		methodTurnStart: func(t *testing.T, c *Conn) {
			thread := startThread(t, c)
			if err := thread.StartTurn(t.Context(), TurnStartParams{}); !errors.Is(err, ErrTimeout) {
				t.Errorf("got %v", err)
			}
			thread.Close(nil)
		},
		methodTurnInterrupt: func(t *testing.T, c *Conn) {
			open(t, c).Close(nil)
		},
		methodThreadUnsubscribe: func(t *testing.T, c *Conn) {
			startThread(t, c).Close(nil)
		},
	}
	for method, use := range use {
		t.Run(strings.ReplaceAll(method, "/", "_"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, d := newDoubles(t)
				d.mute = map[string]bool{method: true}
				p.Start()
				c := conn(t, p)
				old := d.last()
				d.mu.Lock()
				d.mute = nil // of the next one
				d.mu.Unlock()
				use(t, c)
				time.Sleep(closeTimeout)
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
				awaitDrained(t, p)
				if s := p.Status(); s.State != StateReady || s.Restarts != 0 || s.Replacements != 1 || !old.wasKilled() {
					t.Errorf("it became %+v", s)
				}
			})
		})
	}
}

func startThread(t *testing.T, c *Conn) *Thread {
	t.Helper()
	thread, err := c.StartThread(t.Context(), ThreadStartParams{})
	if err != nil {
		t.Fatal(err)
	}
	return thread
}

// Where a fresh app-server is as deaf, it is not replaced all the time.
func TestDeafForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, d := newDoubles(t)
		d.mute = map[string]bool{methodThreadStart: true}
		p.Start()
		for end := time.Now().Add(time.Hour); time.Now().Before(end); {
			if _, err := conn(t, p).StartThread(t.Context(), ThreadStartParams{}); !errors.Is(err, ErrTimeout) && !errors.Is(err, ErrClosed) {
				t.Errorf("got %v", err)
			}
		}
		if s := p.Status(); s.Replacements < 2 || s.Replacements > 8 {
			t.Errorf("in an hour it became %+v", s)
		}
	})
}

// An app-server that never answers probes is alive while it does other things.
func TestMuteProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, d := newDoubles(t)
		d.mute = map[string]bool{methodDiagnostics: true}
		p.Start()
		c := conn(t, p)
		for range 30 {
			time.Sleep(beatWait / 2)
			closed(open(t, c))
		}
		if s := p.Status(); s.State != StateReady || s.Restarts != 0 {
			t.Errorf("while it works it is %+v", s)
		}
		begin := time.Now()
		<-c.Done()
		if took := time.Since(begin); took > givenUp+beatWait || !errors.Is(c.Err(), ErrUnresponsive) {
			t.Errorf("when it did nothing more, it was given up after %s: %v", took, c.Err())
		}
	})
}

// A call that times out has the app-server probed at once.
func TestDoubtIsAProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := dial(t)
		found := make(chan vitals, 1)
		c.beat(heartbeat{every: time.Hour, wait: time.Second}, func(v vitals) { found <- v })
		done := listModels(t.Context(), c)
		p.expect(methodModelList)
		if err := <-done; !errors.Is(err, ErrTimeout) {
			t.Fatal(err)
		}
		p.answer(p.expect(methodDiagnostics), `{}`)
		if v := <-found; v.missed != 0 || v.err != nil || v.deaf != "" {
			t.Errorf("found %+v", v)
		}
		done = listModels(t.Context(), c)
		p.expect(methodModelList)
		<-done
		p.answer(p.expect(methodDiagnostics), `{}`)
		if v := <-found; v.deaf != methodModelList {
			t.Errorf("after two calls it found %+v", v)
		}
		late := listModels(t.Context(), c)
		p.answer(p.expect(methodModelList), `{"data":[]}`)
		if err := <-late; err != nil || c.deafTo() != "" {
			t.Errorf("after an answer (%v) it is deaf to %q", err, c.deafTo())
		}
	})
}

// Calls that are stuck do not keep a probe from being sent.
func TestProbeNeedsNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := dial(t)
		for range maxInFlight {
			listModels(t.Context(), c)
			p.expect(methodModelList)
		}
		found := make(chan vitals, 1)
		c.beat(heartbeat{every: time.Second, wait: time.Second}, func(v vitals) { found <- v })
		p.answer(p.expect(methodDiagnostics), `{}`)
		if v := <-found; v.err != nil {
			t.Errorf("found %+v", v)
		}
	})
}

// moving is a transport on which something moves though no answer comes.
type moving struct {
	*peer
	moved func() uint64
}

func (m moving) Progress() uint64 { return m.moved() }

// While messages move the app-server is alive, and no longer.
func TestProgressIsAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, p := dial(t)
		busyUntil := time.Now().Add(10 * time.Minute)
		c := NewConn(moving{p, func() uint64 { return uint64(min(time.Now().UnixNano(), busyUntil.UnixNano())) }}, nil)
		defer c.Close()
		go func() {
			for { // read, and not answered
				select {
				case <-p.fromClient:
				case <-p.closed:
					return
				}
			}
		}()
		most := 0
		c.beat(heartbeat{every: beatEvery, wait: beatWait}, func(v vitals) {
			if time.Now().Before(busyUntil) {
				most = max(most, v.missed)
			}
		})
		<-c.Done()
		if late := time.Since(busyUntil); most != 0 || late < 0 || late > givenUp+beatWait {
			t.Errorf("it missed %d, and was given up %s after the last movement", most, late)
		}
	})
}

// The network to a remote app-server may be gone for longer.
func TestRemoteIsGivenMoreTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := dial(t)
		c.remote = true
		var missed []int
		begin := time.Now()
		c.beat(heartbeat{every: beatEvery, wait: beatWait}, func(v vitals) { missed = append(missed, v.missed) })
		for range maxMissedRemote {
			p.expect(methodDiagnostics)
		}
		<-c.Done()
		if took := time.Since(begin); took != beatEvery+maxMissedRemote*beatWait || fmt.Sprint(missed) != "[1 2 3 4 5]" {
			t.Errorf("after %s and %v: %v", took, missed, c.Err())
		}
	})
}
