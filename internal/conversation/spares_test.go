package conversation

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// appServer is an app-server that starts and unloads threads.
type appServer struct {
	lines  chan []byte
	closed chan struct{}
	ended  sync.Once

	mu      sync.Mutex
	started int
	loaded  map[string]bool
	params  []string // of thread/start
	refuses bool     // thread/start
}

func newAppServer(t *testing.T) (*appServer, *codexrpc.Conn) {
	a := &appServer{lines: make(chan []byte, 1000), closed: make(chan struct{}), loaded: make(map[string]bool)}
	c := codexrpc.NewConn(a, codexrpc.Options{})
	t.Cleanup(func() { _ = c.Close() })
	return a, c
}

func (a *appServer) Read() ([]byte, error) {
	select {
	case line := <-a.lines:
		return line, nil
	case <-a.closed:
		return nil, io.EOF
	}
}

func (a *appServer) Write(message []byte, _ time.Duration) error {
	var call struct {
		ID     json.RawMessage
		Method string
		Params json.RawMessage
	}
	var params struct{ ThreadID string }
	if err := errors.Join(json.Unmarshal(message, &call), json.Unmarshal(call.Params, &params)); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	answer := `"result":{}`
	switch {
	case call.Method == "thread/start" && a.refuses:
		answer = `"error":{"code":-32600,"message":"no"}`
	case call.Method == "thread/start":
		a.started++
		a.params = append(a.params, string(call.Params))
		id := fmt.Sprint("thr-", a.started)
		a.loaded[id] = true
		answer = fmt.Sprintf(`"result":{"thread":{"id":%q}}`, id)
	case call.Method == "thread/unsubscribe":
		delete(a.loaded, params.ThreadID)
	}
	select {
	case a.lines <- fmt.Appendf(nil, `{"id":%s,%s}`, call.ID, answer):
		return nil
	case <-a.closed: // while the last calls are written
		return io.ErrClosedPipe
	}
}

func (a *appServer) Close() error {
	a.ended.Do(func() { close(a.closed) })
	return nil
}

// counts is how many threads were started, and how many are loaded.
func (a *appServer) counts() (started, loaded int) {
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.started, len(a.loaded)
}

// newTestThreads returns conversations with so many spare threads.
func newTestThreads(t *testing.T, spares int) *Threads {
	limits := Limits{Max: 10, MaxBytes: 1 << 20, Idle: time.Hour, Spares: spares}
	c := NewThreads(limits, func() bool { return false })
	t.Cleanup(c.Close)
	return c
}

func encoded(t *testing.T, s *settings) codexrpc.Constant {
	t.Helper()
	params, err := s.params.AppendJSON(nil)
	must.OK(t, err)
	return codexrpc.Constant(params)
}

// request does what a request with instructions does: it takes a spare thread, or starts one,
// and lets another be prepared. It returns the thread and whether that was a spare one.
func request(t *testing.T, c *Threads, on *codexrpc.Conn, instructions string) (thread *codexrpc.Thread, spare bool) {
	t.Helper()
	s := &settings{place: Place{Conn: on}, params: codexrpc.ThreadStartParams{Model: "m", BaseInstructions: &instructions}}
	thread = c.takeSpare(s)
	if spare = thread != nil; !spare {
		var err error
		thread, err = on.StartThread(t.Context(), s.params)
		must.OK(t, err)
	}
	c.startSpare(s)
	synctest.Wait()
	return thread, spare
}

// TestSpareThreads checks when threads are started before the requests that need them.
func TestSpareThreads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, on := newAppServer(t)
		c := newTestThreads(t, 3)
		given := make(map[*codexrpc.Thread]bool)
		expect := func(instructions string, wantSpare bool, wantWaiting int) {
			t.Helper()
			thread, spare := request(t, c, on, instructions)
			if given[thread] {
				t.Fatal("a thread was given twice")
			}
			given[thread] = true
			if got := c.Stats().Spare; spare != wantSpare || got != wantWaiting {
				t.Fatalf("a spare one: %t, %d wait; want %t, %d", spare, got, wantSpare, wantWaiting)
			}
		}
		expect("a", false, 0) // it may come once
		expect("b", false, 0)
		expect("a", false, 1)
		expect("a", true, 1)
		expect("a", true, 1)
		expect("b", false, 2)
		expect("b", true, 2)
		time.Sleep(spareLife + time.Second)
		if _, loaded := a.counts(); c.Stats().Spare != 0 || loaded != len(given) {
			t.Fatalf("%d wait, %d are loaded, %d were given", c.Stats().Spare, loaded, len(given))
		}
		expect("a", false, 1)
		time.Sleep(recent + time.Second)
		expect("a", false, 0) // it was long ago
		if got := c.Stats().Prepared; got != 3 {
			t.Errorf("%d requests got a spare thread", got)
		}
	})
}

// A spare thread is started with the parameters of the one before it, also if they are long.
func TestSpareParameters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, on := newAppServer(t)
		c := newTestThreads(t, 3)
		for _, instructions := range []string{"a \"short\" one", strings.Repeat("a long one\n", 32<<10), strings.Repeat("another one", 32<<10)} {
			a.params = nil
			for i, want := range []bool{false, false, true} {
				if _, spare := request(t, c, on, instructions); spare != want {
					t.Errorf("request %d got a spare thread: %t", i, spare)
				}
			}
			params := slices.Compact(a.params)
			if len(params) != 1 || gjson.Get(params[0], "baseInstructions").Str != instructions {
				t.Errorf("threads were started with %d different parameters, of which the first are %.200s", len(params), params[0])
			}
		}
	})
}

// TestSpareThreadsAtOnce checks that one thread waits for requests that come at once.
func TestSpareThreadsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, on := newAppServer(t)
		c := newTestThreads(t, 4)
		for round := range 3 {
			spares := 0
			var asked []*settings
			for range 6 {
				s := &settings{place: Place{Conn: on}}
				if c.takeSpare(s) != nil {
					spares++
				}
				asked = append(asked, s)
			}
			for _, s := range asked {
				c.startSpare(s)
			}
			synctest.Wait()
			if got := c.Stats().Spare; got != 1 || spares != min(round, 1) {
				t.Errorf("%d of 6 requests got a spare thread, %d wait", spares, got)
			}
		}
	})
}

// TestSpareThreadsAreDropped checks that spare threads end with their connection, with the
// conversations, and if fewer may wait, and that those that arrive later are unloaded. One waits and one
// is being started when this happens.
func TestSpareThreadsAreDropped(t *testing.T) {
	for name, test := range map[string]struct {
		drop func(*Threads, *codexrpc.Conn)
		left int
	}{
		"replaced":    {func(c *Threads, other *codexrpc.Conn) { c.Follow(other) }, 0},
		"closed":      {func(c *Threads, _ *codexrpc.Conn) { c.Close() }, 0},
		"off":         {func(c *Threads, _ *codexrpc.Conn) { c.SetLimits(Limits{}) }, 0},
		"one may":     {func(c *Threads, _ *codexrpc.Conn) { c.SetLimits(Limits{Max: 10, Spares: 1}) }, 1},
		"as many may": {func(c *Threads, _ *codexrpc.Conn) { c.SetLimits(Limits{Max: 10, Spares: 2}) }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, on := newAppServer(t)
				_, other := newAppServer(t)
				c := newTestThreads(t, 2)
				request(t, c, on, "a")
				request(t, c, on, "a")
				s := &settings{place: Place{Conn: on}}
				c.takeSpare(s)
				c.takeSpare(s)
				if !c.reserveSpare(s.kind) {
					t.Fatal("no thread is wanted")
				}
				test.drop(c, other)
				if !on.PrepareThread(encoded(t, s), func(thread *codexrpc.Thread) { c.addSpare(s.kind, on, thread) }) {
					t.Fatal("the call was not written")
				}
				if started, loaded := a.counts(); c.Stats().Spare != test.left || started != 4 || loaded != 2+test.left || c.spares != test.left {
					t.Errorf("%d wait, %d are counted; of %d threads that were started, %d are loaded", c.Stats().Spare, c.spares, started, loaded)
				}
			})
		})
	}
}

// Threads which are being started when fewer may wait are unloaded.
func TestFewerSpareThreadsThanStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, on := newAppServer(t)
		c := newTestThreads(t, 3)
		var all []*settings
		for _, model := range []string{"a", "b", "c"} {
			s := &settings{place: Place{Conn: on}, params: codexrpc.ThreadStartParams{Model: model}}
			c.takeSpare(s)
			c.takeSpare(s)
			c.reserveSpare(s.kind)
			all = append(all, s)
		}
		c.SetLimits(Limits{Max: 10, Spares: 1})
		for _, s := range all {
			if !on.PrepareThread(encoded(t, s), func(thread *codexrpc.Thread) { c.addSpare(s.kind, on, thread) }) {
				t.Fatal("the call was not written")
			}
		}
		if _, loaded := a.counts(); loaded != 1 || c.Stats().Spare != 1 || c.spares != 1 {
			t.Errorf("%d wait, %d are counted, %d are loaded; 1 may", c.Stats().Spare, c.spares, loaded)
		}
	})
}

func TestSpareThreadRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, on := newAppServer(t)
		c := newTestThreads(t, 2)
		request(t, c, on, "a")
		a.refuses = true
		s := &settings{place: Place{Conn: on}}
		for range 2 {
			c.takeSpare(s)
		}
		for range 10 {
			c.startSpare(s)
			synctest.Wait()
		}
		if c.spares != 0 || s.kind.hasSpare {
			t.Errorf("%d are counted, one has come: %t", c.spares, s.kind.hasSpare)
		}
	})
}

// TestSpareThreadsAreBounded sends requests with random settings at random times, and checks
// that no more threads wait, and no more settings are remembered, than may, and that nothing
// is left in the end.
func TestSpareThreadsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 5
		a, on := newAppServer(t)
		c := newTestThreads(t, most)
		random := rand.New(rand.NewPCG(1, 2))
		for range 3000 {
			settings := random.IntN(6)
			if random.IntN(4) == 0 {
				settings = random.IntN(1000)
			}
			thread, _ := request(t, c, on, fmt.Sprint(settings))
			thread.Close(nil)
			if random.IntN(10) == 0 {
				time.Sleep(time.Duration(random.Int64N(int64(2 * spareLife))))
			}
			if got := c.Stats().Spare; got > most || len(c.kinds) > maxKinds || c.spares != got {
				t.Fatalf("%d threads wait, %d are counted, for %d settings", got, c.spares, len(c.kinds))
			}
		}
		if c.Stats().Prepared == 0 {
			t.Error("no request got a spare thread")
		}
		time.Sleep(spareLife)
		if _, loaded := a.counts(); c.Stats().Spare != 0 || loaded != 0 {
			t.Errorf("%d threads wait, %d are loaded", c.Stats().Spare, loaded)
		}
	})
}
