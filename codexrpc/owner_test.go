package codexrpc

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"
)

// put makes the app-server hold threads of others.
func (e *elsewhere) put(threads map[string]string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.loaded == nil {
		e.loaded = make(map[string]string)
	}
	maps.Copy(e.loaded, threads)
}

func (e *elsewhere) holds(id string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, there := e.loaded[id]
	return there
}

// awaitLoaded waits until the app-server holds what is wanted.
func (e *elsewhere) awaitLoaded(t *testing.T, wanted func(sources []string) bool) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		e.mu.Lock()
		sources := slices.Sorted(maps.Values(e.loaded))
		e.mu.Unlock()
		if wanted(sources) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("it holds %q", sources)
		}
	}
}

// The turns of a client that is gone are interrupted, and nobody else's.
func TestOrphansOfOthers(t *testing.T) {
	e := newElsewhere(t, "")
	e.put(map[string]string{
		"dead-1": ownerPrefix + "DEAD", "dead-2": ownerPrefix + "DEAD",
		"alive-1": ownerPrefix + "ALIVE", "alive-sign": ownerPrefix + "ALIVE" + signSuffix,
		"alone-sign": ownerPrefix + "IDLE" + signSuffix,
		"tui":        "user", "unknown": "",
	})
	p, book := e.connect(t, nil)
	p.Start()
	mine := open(t, conn(t, p))
	e.awaitInterrupted(t, "dead-1")
	e.awaitInterrupted(t, "dead-2")
	book.await(t, "a client which is gone")
	// So many more looks change nothing.
	e.put(map[string]string{"dead-3": ownerPrefix + "GONE"})
	e.awaitInterrupted(t, "dead-3")
	for _, id := range []string{"alive-1", "alive-sign", "alone-sign", "tui", "unknown", mine.ID()} {
		if !e.holds(id) {
			t.Errorf("%s was interrupted", id)
		}
	}
	if n := len(e.interrupted); n != 3 {
		t.Errorf("%d were interrupted", n)
	}
}

// A connection marks its threads, and shows another sign of life if the
// app-server has unloaded the one it had.
func TestSignOfLife(t *testing.T) {
	e := newElsewhere(t, "")
	e.put(map[string]string{})
	p, _ := e.connect(t, nil)
	p.Start()
	c := conn(t, p)
	one, two := open(t, c), open(t, c)
	shown := func(n int) func([]string) bool {
		return func(sources []string) bool {
			return slices.Equal(sources, append(slices.Repeat([]string{c.owner}, n), c.owner+signSuffix))
		}
	}
	e.awaitLoaded(t, shown(2))
	c.mu.Lock()
	sign := c.sign
	c.mu.Unlock()
	e.mu.Lock()
	delete(e.loaded, sign)
	e.mu.Unlock()
	e.awaitLoaded(t, shown(2))
	closed(one)
	closed(two)
	e.awaitLoaded(t, shown(0))
	if c.Threads() != 0 {
		t.Error("the sign of life counts as a thread")
	}
	for end := time.Now().Add(patience); c.busy(); time.Sleep(time.Millisecond) { // with sweeps
		if time.Now().After(end) {
			t.Fatal("the connection stays busy")
		}
	}
}

// An app-server that does not keep the mark is used without.
func TestNoSignOfLife(t *testing.T) {
	e := newElsewhere(t, "")
	p, _ := e.connect(t, nil)
	p.Start()
	c := conn(t, p)
	open(t, c)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sign != "" {
		t.Errorf("%s is its sign", c.sign)
	}
}

// Who is without an owner once or twice may have one; and who gets one again is
// counted anew.
func TestSweeps(t *testing.T) {
	s := &sweeper{}
	const owner = ownerPrefix + "X"
	for i, step := range []struct {
		signed bool
		want   int
	}{{false, 0}, {false, 0}, {true, 0}, {false, 0}, {false, 0}, {false, 1}, {false, 1}} {
		s.sources = map[string]string{"thread": owner, "seen-once": unread}
		if step.signed {
			s.sources["sign"] = owner + signSuffix
		}
		if got := s.orphans(ownerPrefix + "ME"); len(got) != step.want {
			t.Errorf("sweep %d finds %q", i, got)
		}
	}
	s.sources = map[string]string{"thread": owner}
	if got := s.orphans(owner); len(got) != 0 {
		t.Errorf("a connection's own %q", got)
	}
}

// A caller that leaves does not wait for the sign of life.
func TestMarkGivesUp(t *testing.T) {
	e := newElsewhere(t, "")
	p, _ := e.connect(t, nil)
	p.Start()
	c := conn(t, p)
	e.mute.Store(methodThreadStart)
	ctx, leave := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer leave()
	if _, err := c.StartThread(ctx, ThreadStartParams{}); err == nil {
		t.Error("a thread was started")
	}
	p.Stop()
	if _, err := c.StartThread(t.Context(), ThreadStartParams{}); err == nil {
		t.Error("a thread was started on a connection that has ended")
	}
}
