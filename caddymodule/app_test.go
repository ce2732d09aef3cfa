package caddymodule

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-codex/caddy-codex/codexrpc/appserver"
)

// Handlers with the same app_server share one process. It starts with the app, not
// before: a configuration may be provisioned only to be checked.
func TestStart(t *testing.T) {
	c := provision(t, fakeHandler(t, "shared"), fakeHandler(t, "shared"))
	if n := pooled(); n != 0 {
		t.Errorf("%d processes are there before the start", n)
	}
	if err := childless(); err != nil {
		t.Errorf("before the start: %v", err)
	}
	c.start(t)
	if n := pooled(); n != 1 {
		t.Errorf("%d processes for two handlers", n)
	}
	u := sole(t, c.app)
	p, release := lease(t, u)
	if p.Status().PID == 0 {
		t.Error("the fork is not over when Start returns")
	}
	release()
	if n := references(u); n != 1 {
		t.Errorf("the configuration holds %d references", n)
	}
	first := pid(t, u)
	if err := c.app.Stop(); err != nil {
		t.Fatal(err)
	}
	if now := pid(t, u); now != first {
		t.Errorf("the process %d became %d when the app stopped, under its streams", first, now)
	}
	c.cleanup()
	if n := pooled(); n != 0 || !gone(first) {
		t.Errorf("after the cleanup %d processes are there, and %d has gone: %t", n, first, gone(first))
	}
}

// Handlers with different app_servers have separate processes.
func TestStartOfSeveral(t *testing.T) {
	c := provision(t, fakeHandler(t, "one"), fakeHandler(t, "other"))
	c.start(t)
	pids := make(map[int]bool)
	for _, u := range c.app.members {
		pids[pid(t, u)] = true
	}
	if len(pids) != 2 || pooled() != 2 {
		t.Errorf("%d processes, %d of them in the pool, for two app_servers", len(pids), pooled())
	}
}

// The cleanup of an app that never started, as after `caddy validate`, must not release
// the reference of another configuration. Neither must a second cleanup.
func TestCleanupGivesBackItsOwn(t *testing.T) {
	running, other := provision(t, fakeHandler(t, "shared")), provision(t, fakeHandler(t, "shared"))
	running.start(t)
	u := sole(t, running.app)
	before := pid(t, u)
	check := func(when string, want int) {
		t.Helper()
		if n, now := references(u), pid(t, u); n != want || now != before {
			t.Errorf("%s: %d references to process %d, want %d to %d", when, n, now, want, before)
		}
	}
	provision(t, fakeHandler(t, "shared")).cleanup()
	check("after a cleanup without a start", 1)
	other.start(t)
	check("with two configurations", 2)
	other.cleanup()
	check("after a cleanup", 1)
	if err := other.app.Cleanup(); err != nil {
		t.Error(err)
	}
	check("after a second cleanup", 1)
}

// A process runs as long as a request holds it. The last Release stops it; Release may be
// called more than once.
func TestLeaseOutlivesItsConfiguration(t *testing.T) {
	c := provision(t, fakeHandler(t, "leased"))
	c.start(t)
	u := sole(t, c.app)
	id := pid(t, u)
	p, release := lease(t, u)
	_, other := lease(t, u)
	c.cleanup()
	release()
	release()
	if state := p.Status().State; state != appserver.StateReady || references(u) != 1 {
		t.Fatalf("while it is held it is %s with %d references", state, references(u))
	}
	other()
	eventually(t, "the process ended", func() bool { return p.Status().State == appserver.StateStopped })
	if !gone(id) {
		t.Errorf("process %d lives", id)
	}
}

// A process logs to the log of the last configuration that holds it. It outlives the
// configuration that started it, and one that took it over and failed.
func TestLogFollowsTheConfigurations(t *testing.T) {
	for _, test := range []struct {
		steps   string // a letter holds, in capitals it releases
		speaker string // whose log is written
	}{
		{"a", "a"},
		{"ab", "b"},
		{"abA", "b"},
		{"abB", "a"},
		{"abcC", "b"},
		{"abcB", "c"},
		{"abcBC", "a"},
		{"abAcC", "b"},
		{"aA", "a"}, // a stream may still hold the process
	} {
		// A program that cannot be started is spoken of in the log at once.
		p := newProcess(&member{cfg: appserver.Config{Command: []string{"/no/such/program"}, Dir: t.TempDir()}})
		logs, holders := make(map[string]*logBook), make(map[string]*member)
		for _, step := range strings.Split(test.steps, "") {
			name := strings.ToLower(step)
			if step != name {
				p.release(holders[name])
				continue
			}
			logs[name] = new(logBook)
			holders[name] = &member{app: bareApp(), logger: slog.New(slog.NewTextHandler(logs[name], nil))}
			p.hold(holders[name])
		}
		p.Start()
		p.Stop()
		if _, err := logins.Delete(p.login.key); err != nil {
			t.Error(err)
		}
		for name, log := range logs {
			if got, want := strings.Contains(log.String(), "/no/such/program"), name == test.speaker; got != want {
				t.Errorf("%s: the log of %s was written: %t, want %t", test.steps, name, got, want)
			}
		}
	}
}

// A process writes to the log of its configuration until its end.
func TestLogOfTheConfiguration(t *testing.T) {
	log := new(logBook)
	u := &member{app: bareApp(), key: "logging", pooled: "logging", cfg: resolved(t, fakeServer(t, "logging")), logger: slog.New(slog.NewTextHandler(log, nil))}
	_, release := lease(t, &member{app: bareApp(), key: u.key, pooled: u.pooled, cfg: u.cfg, logger: slog.New(slog.DiscardHandler)})
	u.hold()
	pid(t, u) // when it is ready it is about to read
	release()
	u.release()
	stopping.Wait()
	if !strings.Contains(log.String(), lastWords) {
		t.Errorf("it never said %q:\n%s", lastWords, log)
	}
}

// bareApp returns the app of a configuration that was cleaned up.
func bareApp() *App {
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	cancel()
	return &App{ctx: ctx}
}

// logBook is the output of a log.
type logBook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBook) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(line)
}

func (b *logBook) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
