package pool

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/appserver"
	"github.com/caddy-codex/caddy-codex/internal/test/fakeserver"
	"github.com/caddy-codex/caddy-codex/internal/test/logbook"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// Pools with the same app-server share one process. It starts with the configuration, not
// before: that may be made only to be checked.
func TestStart(t *testing.T) {
	s := newSupervisor(t)
	pooled := func() int { return len(s.All()) }
	c, _ := newConfiguration(t, s, fakes(t, "shared", 1), fakes(t, "shared", 1))
	if n := pooled(); n != 0 {
		t.Errorf("%d processes are there before the start", n)
	}
	if err := childless(); err != nil {
		t.Errorf("before the start: %v", err)
	}
	c.Start()
	if n := pooled(); n != 1 {
		t.Errorf("%d processes for two pools", n)
	}
	u := sole(t, c)
	p, release := lease(t, u)
	if p.Status().PID == 0 {
		t.Error("the fork is not over when Start returns")
	}
	release()
	if n := references(u); n != 1 {
		t.Errorf("the configuration holds %d references", n)
	}
	first := pid(t, u)
	c.cleanup()
	if n := pooled(); n != 0 || !gone(first) {
		t.Errorf("after the cleanup %d processes are there, and %d has gone: %t", n, first, gone(first))
	}
}

// The end of a configuration that never started must not release the reference of another
// one. Neither must a second end.
func TestCleanupGivesBackItsOwn(t *testing.T) {
	s := newSupervisor(t)
	made := func() *configuration {
		c, _ := newConfiguration(t, s, fakes(t, "shared", 1))
		return c
	}
	running, other := made(), made()
	running.Start()
	u := sole(t, running)
	before := pid(t, u)
	check := func(when string, want int) {
		t.Helper()
		if n, now := references(u), pid(t, u); n != want || now != before {
			t.Errorf("%s: %d references to process %d, want %d to %d", when, n, now, want, before)
		}
	}
	made().cleanup()
	check("after a cleanup without a start", 1)
	other.Start()
	check("with two configurations", 2)
	other.cleanup()
	check("after a cleanup", 1)
	other.cleanup()
	check("after a second cleanup", 1)
}

// A process runs as long as a request holds it. The last Release stops it; Release may be
// called more than once.
func TestLeaseOutlivesItsConfiguration(t *testing.T) {
	c, _ := newConfiguration(t, newSupervisor(t), fakes(t, "leased", 1))
	c.Start()
	u := sole(t, c)
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
	must.Happen(t, "the process ended", func() bool { return p.Status().State == appserver.StateStopped })
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
		c, _ := newConfiguration(t, newSupervisor(t))
		p := newProcess(&member{configuration: c.Configuration, cfg: appserver.Config{Command: []string{"/no/such/program"}}})
		logs, holders := make(map[string]*logbook.Book), make(map[string]*member)
		for _, step := range strings.Split(test.steps, "") {
			name := strings.ToLower(step)
			if step != name {
				p.removeHolder(holders[name])
				continue
			}
			logs[name] = new(logbook.Book)
			holders[name] = &member{configuration: c.Configuration, logger: logs[name].Logger()}
			p.addHolder(holders[name])
		}
		p.Start()
		p.Stop()
		c.supervisor.releaseLogin(p.login)
		for name, log := range logs {
			if got, want := strings.Contains(log.String(), "/no/such/program"), name == test.speaker; got != want {
				t.Errorf("%s: the log of %s was written: %t, want %t", test.steps, name, got, want)
			}
		}
	}
}

// A process writes to the log of its configuration until its end.
func TestLogOfTheConfiguration(t *testing.T) {
	log := new(logbook.Book)
	c, _ := newConfiguration(t, newSupervisor(t))
	cfg := fakes(t, "logging", 1)[0].Config
	u := &member{configuration: c.Configuration, key: "logging", cfg: cfg, logger: log.Logger()}
	_, release := lease(t, &member{configuration: c.Configuration, key: u.key, cfg: cfg, logger: slog.New(slog.DiscardHandler)})
	u.acquireForConfiguration()
	pid(t, u) // when it is ready it is about to read
	release()
	u.releaseForConfiguration()
	c.supervisor.Wait()
	if !strings.Contains(log.String(), fakeserver.LastWords) {
		t.Errorf("it never said %q:\n%s", fakeserver.LastWords, log)
	}
}

// The key of a process differs if anything in its configuration does, and is the same otherwise.
func TestKey(t *testing.T) {
	base := func() appserver.Config {
		return appserver.Config{
			Command: []string{"codex", "app-server"}, Home: "h",
			Env: map[string]string{"A": "1", "B": "2", "C": "3"},
		}
	}
	seen := make(map[string]string)
	for name, change := range map[string]func(*appserver.Config){
		"as it is":            func(*appserver.Config) {},
		"another program":     func(c *appserver.Config) { c.Command[0] = "x" },
		"arguments joined":    func(c *appserver.Config) { c.Command = []string{"codex app-server"} },
		"another home":        func(c *appserver.Config) { c.Home = "x" },
		"another value":       func(c *appserver.Config) { c.Env["A"] = "x" },
		"one variable less":   func(c *appserver.Config) { delete(c.Env, "A") },
		"values exchanged":    func(c *appserver.Config) { c.Env["A"], c.Env["B"] = c.Env["B"], c.Env["A"] },
		"another memory":      func(c *appserver.Config) { c.MaxMemory = 9 },
		"another client name": func(c *appserver.Config) { c.Client.Version = "2" },
	} {
		cfg, again := base(), base()
		change(&cfg)
		change(&again)
		key := Key(cfg)
		if Key(again) != key {
			t.Errorf("%s: two keys for one configuration", name)
		}
		if other, twice := seen[key]; twice {
			t.Errorf("%s and %s have one key", name, other)
		}
		seen[key] = name
	}
}
