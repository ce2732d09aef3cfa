package appserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/test/logbook"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// newReplaced makes a process that is probed all the time and replaces without a grace period.
func newReplaced(t *testing.T, mode string, change func(*Config)) (*Process, *logbook.Book) {
	t.Helper()
	p := newTestProcess(t, mode, change)
	book := new(logbook.Book)
	p.SetLogger(book.Logger())
	p.times.heartbeat = codexrpc.Heartbeat{MaxMissed: maxMissed, Every: time.Millisecond, Wait: patience}
	p.times.drainGrace = 0
	p.times.replaceEvery = time.Millisecond
	return p, book
}

// open starts a thread with a turn on a connection.
func open(t *testing.T, c *codexrpc.Conn) *codexrpc.Thread {
	t.Helper()
	thread, err := c.StartThread(t.Context(), codexrpc.ThreadStartParams{})
	must.OK(t, err)
	must.OK(t, thread.StartTurn(t.Context(), codexrpc.TurnStartParams{}))
	return thread
}

func closed(thread *codexrpc.Thread) {
	released := make(chan struct{})
	thread.Close(func() { close(released) })
	<-released
}

func awaitReplacements(t *testing.T, p *Process, n int) Status {
	t.Helper()
	return await(t, p, fmt.Sprintf("replaced %d times", n), func(s Status) bool { return s.Replacements >= n })
}

func awaitDrained(t *testing.T, p *Process) Status {
	t.Helper()
	return await(t, p, "drained", func(s Status) bool { return s.Draining == 0 })
}

// A child above the memory limit is replaced and ends with its last thread.
func TestReplacedForMemory(t *testing.T) {
	t.Parallel()
	p, book := newReplaced(t, "grows", func(cfg *Config) { cfg.MaxMemory = 350 })
	p.Start()
	c := conn(t, p)
	first := p.Status()
	book.Await(t, "is ready")
	one, two := open(t, c), open(t, c)
	if s := p.Status(); s.Threads != 2 || s.Draining != 0 || s.Replacements != 0 {
		t.Errorf("the status is %+v", s)
	}
	three := open(t, c)
	now := awaitReplacements(t, p, 1)
	if now.State != StateReady || now.PID == first.PID || now.Restarts != 0 || now.Threads != 3 || now.Draining != 1 {
		t.Errorf("replaced as %+v", now)
	}
	book.Await(t, "its memory of 400 B is above the limit of 350 B")
	fresh := conn(t, p)
	if fresh == c || c.Err() != nil || !alive(first.PID) {
		t.Errorf("the old connection has ended: %v", c.Err())
	}
	four := open(t, fresh)
	closed(one)
	closed(two)
	if _, err := three.Recv(); err != nil || p.Status().Threads != 2 {
		t.Errorf("a turn of the old one ended with %v; %+v", err, p.Status())
	}
	closed(three)
	awaitDrained(t, p)
	awaitGone(t, first.PID)
	book.Await(t, "the replaced codex app-server has ended")
	closed(four)
	await(t, p, "measured", func(s Status) bool { return s.Memory > 0 })
	if s := p.Status(); s.Replacements != 1 || s.Threads != 0 {
		t.Errorf("in the end it is %+v", s)
	}
}

// A fresh child above the limit is not replaced again at once.
func TestTooLowALimit(t *testing.T) {
	t.Parallel()
	p, book := newReplaced(t, "fat", func(cfg *Config) { cfg.MaxMemory = 1 << 30 })
	p.times.replaceEvery = replaceEvery
	p.Start()
	book.Await(t, "will be replaced later")
	if s := p.Status(); s.Replacements != 1 || s.Memory != 1<<40 {
		t.Errorf("it is %+v", s)
	}
	if n := strings.Count(book.String(), "will be replaced later"); n != 1 {
		t.Errorf("the log says so %d times", n)
	}
}

// A child that grew to the limit is replaced when the one before has drained.
func TestReplacedAsItGrows(t *testing.T) {
	t.Parallel()
	p, book := newReplaced(t, "grows", func(cfg *Config) { cfg.MaxMemory = 350 })
	p.times.replaceEvery = time.Hour
	p.Start()
	var threads []*codexrpc.Thread
	for n := range 3 {
		await(t, p, "measured", func(s Status) bool { return s.Memory > 0 })
		c := conn(t, p)
		for range 3 {
			threads = append(threads, open(t, c))
		}
		if n > 0 {
			book.Await(t, "will be replaced later")
			if s := p.Status(); s.Replacements != n || s.Draining != 1 {
				t.Errorf("beside one that drains it is %+v", s)
			}
			for _, thread := range threads[:3] {
				closed(thread)
			}
			threads = threads[3:]
		}
		awaitReplacements(t, p, n+1)
	}
}

func TestRestart(t *testing.T) {
	t.Parallel()
	p, _ := newReplaced(t, "", nil)
	var notReady *NotReadyError
	if err := p.Restart(); !errors.As(err, &notReady) || notReady.State != StateNew {
		t.Errorf("before the start: %v", err)
	}
	p.Start()
	c := conn(t, p)
	before := p.Status()
	thread := open(t, c)
	must.OK(t, p.Restart())
	after := awaitReplacements(t, p, 1)
	if after.PID == before.PID || after.Since != before.Since || after.Draining != 1 {
		t.Errorf("it became %+v", after)
	}
	closed(thread)
	awaitDrained(t, p)
	awaitGone(t, before.PID)
	p.Stop()
	if err := p.Restart(); !errors.As(err, &notReady) || notReady.State != StateStopped {
		t.Errorf("after the end: %v", err)
	}
}

func TestRestartOfNone(t *testing.T) {
	t.Parallel()
	p := newTestProcess(t, "fails", nil)
	p.backoff.first, p.backoff.longest = time.Hour, time.Hour
	p.Start()
	awaitState(t, p, StateBackoff)
	p.cfg.Env[childEnv] = "" // what was wrong is mended
	must.OK(t, p.Restart())
	awaitState(t, p, StateReady)
	if s := p.Status(); s.Restarts != 1 || s.Replacements != 0 {
		t.Errorf("it is %+v", s)
	}
}

// The old child serves until the next one is ready, and there is one replacement at a time.
func TestReplacementUnderWay(t *testing.T) {
	t.Parallel()
	p, _ := newReplaced(t, "", nil)
	p.Start()
	c := conn(t, p)
	pid := p.Status().PID
	p.cfg.Env[childEnv] = "mute:initialize" // of the next child
	must.OK(t, p.Restart())
	if err := p.Restart(); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("a second one: %v", err)
	}
	if again := conn(t, p); again != c || p.Status().PID != pid {
		t.Error("it serves no more")
	}
	// When the old one dies now, the next one is what is waited for.
	kill(t, pid)
	s := await(t, p, "starting", func(s Status) bool { return s.State == StateStarting && s.PID != 0 })
	if s.PID == pid || s.Restarts != 0 {
		t.Errorf("it is %+v", s)
	}
	p.Stop()
	awaitGone(t, s.PID)
}

// TestReplacementFails checks that the old child goes on if its replacement fails.
func TestReplacementFails(t *testing.T) {
	t.Parallel()
	p, book := newReplaced(t, "", nil)
	p.Start()
	c := conn(t, p)
	good := p.cfg.Command
	p.cfg.Env[childEnv] = "fails"
	must.OK(t, p.Restart())
	book.Await(t, "could not be replaced")
	book.Await(t, "config.toml is broken")
	p.cfg.Command = []string{"codex-of-no-such-name", appServerCommand}
	if err := p.Restart(); err == nil || !strings.Contains(err.Error(), "npm install") {
		t.Errorf("got %v", err)
	}
	if again := conn(t, p); again != c {
		t.Error("the old one serves no more")
	}
	p.cfg.Command, p.cfg.Env[childEnv] = good, ""
	if err := p.Restart(); err != nil {
		t.Error(err)
	}
	awaitReplacements(t, p, 1)
}

// A draining child is stopped at the limit and its turns fail.
func TestDrainLimit(t *testing.T) {
	t.Parallel()
	p, book := newReplaced(t, "", nil)
	p.times.drainLimit = time.Millisecond
	p.Start()
	thread := open(t, conn(t, p))
	must.OK(t, p.Restart())
	if err := takeToEnd(t, thread); !errors.Is(err, codexrpc.ErrClosed) {
		t.Errorf("the turn ended with %v", err)
	}
	book.Await(t, "was stopped with turns on it")
	awaitDrained(t, p)
}

// TestDrainingIsBounded checks the number of draining children, all ended by Stop.
func TestDrainingIsBounded(t *testing.T) {
	t.Parallel()
	p, _ := newReplaced(t, "", nil)
	p.Start()
	var pids []int
	for n := range maxDraining {
		open(t, conn(t, p))
		pids = append(pids, p.Status().PID)
		must.OK(t, p.Restart())
		awaitReplacements(t, p, n+1)
	}
	if err := p.Restart(); err == nil || !strings.Contains(err.Error(), "has to wait") {
		t.Errorf("got %v", err)
	}
	if s := p.Status(); s.Draining != maxDraining || s.Threads != maxDraining {
		t.Errorf("it is %+v", s)
	}
	pids = append(pids, p.Status().PID)
	p.Stop()
	for _, pid := range pids {
		awaitGone(t, pid)
	}
	if s := p.Status(); s.Draining != 0 || s.Threads != 0 {
		t.Errorf("stopped as %+v", s)
	}
}

// TestDrainWaitsForCallers checks the grace period for callers that have no thread yet.
func TestDrainWaitsForCallers(t *testing.T) {
	p, _ := newReplaced(t, "", nil)
	p.times.drainGrace = time.Hour
	p.Start()
	c := conn(t, p)
	must.OK(t, p.Restart())
	awaitReplacements(t, p, 1)
	closed(open(t, c))
	if s := p.Status(); s.Draining != 1 || c.Err() != nil {
		t.Errorf("it is %+v, and the connection %v", s, c.Err())
	}
}

// The exit of a draining child is no failure of the process.
func TestDrainingOneDies(t *testing.T) {
	t.Parallel()
	p, _ := newReplaced(t, "", nil)
	p.Start()
	pid := p.Status().PID
	thread := open(t, conn(t, p))
	must.OK(t, p.Restart())
	awaitReplacements(t, p, 1)
	kill(t, pid)
	if err := takeToEnd(t, thread); !errors.Is(err, codexrpc.ErrClosed) {
		t.Errorf("the turn ended with %v", err)
	}
	if s := awaitDrained(t, p); s.State != StateReady || s.Restarts != 0 {
		t.Errorf("it is %+v", s)
	}
}

// The observer gets each change, in order and without locks held.
func TestObserver(t *testing.T) {
	t.Parallel()
	p, _ := newReplaced(t, "", nil)
	var mu sync.Mutex
	var seen []string
	p.SetObserver(func(s Status) {
		p.Status() // would not return under the lock
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, fmt.Sprint(s.State, " ", s.Restarts, " ", s.Replacements))
	})
	p.Start()
	kill(t, awaitState(t, p, StateReady).PID)
	awaitRestarts(t, p, 1)
	must.OK(t, p.Restart())
	awaitReplacements(t, p, 1)
	awaitDrained(t, p)
	p.Stop()
	mu.Lock()
	defer mu.Unlock()
	seen = slices.Compact(seen) // the end of a drain is told once more, or not any more
	want := []string{"starting 0 0", "ready 0 0", "stopping 0 0", "backoff 0 0", "starting 1 0", "ready 1 0", "ready 1 1", "stopping 1 1", "stopped 1 1"}
	if !slices.Equal(seen, want) {
		t.Errorf("heard %q\nwant  %q", seen, want)
	}
	p.SetObserver(nil)
}

// statesOf records the states of a process in a bubble, and returns them once all of it waits: the
// observer is called after the state can be seen.
func statesOf(p *Process) func() []State {
	var seen []State
	p.SetObserver(func(s Status) { seen = append(seen, s.State) })
	return func() []State {
		synctest.Wait()
		return seen
	}
}

// TestRestartAfterACompletedTurn checks that an app-server that has completed a turn
// is started again without a pause, and that waiting callers get the next connection.
func TestRestartAfterACompletedTurn(t *testing.T) {
	inBubble(t, func(t *testing.T, p *Process, d *doubles) {
		seen := statesOf(p)
		begin := time.Now()
		const kills = 5
		for range kills {
			c := conn(t, p)
			thread := open(t, c)
			d.last().completed(1)
			synctest.Wait()
			thread.Close(nil)
			d.last().kill()
			<-c.Done()
		}
		conn(t, p)
		if s := p.Status(); s.Restarts != kills || s.Reason != "" || time.Since(begin) != 0 {
			t.Errorf("after %s it is %+v", time.Since(begin), s)
		}
		if states := seen(); slices.Contains(states, StateBackoff) {
			t.Errorf("it was %v", states)
		}
	})
}

// An app-server that was ready for long is started again without a pause.
func TestRestartAfterALongTime(t *testing.T) {
	inBubble(t, func(t *testing.T, p *Process, d *doubles) {
		seen := statesOf(p)
		time.Sleep(time.Minute)
		d.last().kill()
		awaitRestarts(t, p, 1)
		if states := seen(); slices.Contains(states, StateBackoff) {
			t.Errorf("it was %v", states)
		}
	})
}

// The pauses grow for an app-server that completes no turn, and Conn waits for short ones only.
func TestRestartPauses(t *testing.T) {
	inBubble(t, func(t *testing.T, p *Process, d *doubles) {
		for n, most := range []time.Duration{
			100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond, 1600 * time.Millisecond,
		} {
			begin := time.Now()
			d.last().kill()
			synctest.Wait()
			open(t, conn(t, p)) // begun, and never completed
			if took := time.Since(begin); took > most || took < most-most/4 {
				t.Errorf("after %d ends the pause was %s", n+1, took)
			}
		}
		d.last().kill()
		synctest.Wait()
		var notReady *NotReadyError
		if _, err := p.Instance(t.Context()); !errors.As(err, &notReady) || notReady.State != StateBackoff || notReady.RetryAfter < maxRetryWait {
			t.Errorf("got %v", err)
		}
		begin := time.Now()
		time.Sleep(notReady.RetryAfter - maxRetryWait)
		conn(t, p)
		if took := time.Since(begin); took > notReady.RetryAfter {
			t.Errorf("it came back after %s, and not after %s", took, notReady.RetryAfter)
		}
	})
}

// Conn fails at once while the process is being stopped.
func TestConnDuringTheStop(t *testing.T) {
	inBubble(t, func(t *testing.T, p *Process, d *doubles) {
		d.last().freeze() // it takes its time
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			p.Stop()
		}()
		awaitState(t, p, StateStopping)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		var notReady *NotReadyError
		if _, err := p.Instance(ctx); !errors.As(err, &notReady) {
			t.Errorf("got %v", err)
		}
		synctest.Wait()
		<-ended
	})
}
