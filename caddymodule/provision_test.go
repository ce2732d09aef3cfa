package caddymodule

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-codex/caddy-codex/internal/appserver"
	"github.com/caddy-codex/caddy-codex/internal/pool"
)

// configuration is a configuration that is provisioned, but not run by Caddy.
type configuration struct {
	ctx      caddy.Context
	app      *App
	handlers []*Handler
	cleanup  func() // what Caddy does when it drops the configuration
}

// provision provisions handlers as Caddy does before it starts anything. They are cleaned up
// at the end of the test, unless the test has done so.
func provision(t testing.TB, handlers ...*Handler) *configuration {
	t.Helper()
	ctx, cleanup := newContext(t)
	c := &configuration{ctx: ctx, cleanup: cleanup}
	for _, h := range handlers {
		loaded, err := ctx.LoadModuleByID("http.handlers.codex", encode(t, h))
		if err != nil {
			t.Fatal(err)
		}
		c.handlers = append(c.handlers, loaded.(*Handler))
	}
	app, err := ctx.App("codex")
	if err != nil {
		t.Fatal(err)
	}
	c.app = app.(*App)
	return c
}

// refused provisions a handler from JSON and returns why that fails.
func refused(t *testing.T, config string) error {
	t.Helper()
	ctx, _ := newContext(t)
	_, err := ctx.LoadModuleByID("http.handlers.codex", json.RawMessage(config))
	if err == nil {
		t.Fatalf("it is accepted: %s", config)
	}
	return err
}

// newContext returns the context of an empty configuration.
func newContext(t testing.TB) (caddy.Context, func()) {
	t.Helper()
	base, err := caddy.ProvisionContext(nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := caddy.NewContext(base)
	ended := false
	cleanup := func() {
		if !ended {
			ended = true
			cancel()
			supervisor.Wait()
		}
	}
	t.Cleanup(cleanup)
	return ctx, cleanup
}

// start starts the app, as Caddy does after provisioning.
func (c *configuration) start(t testing.TB) {
	t.Helper()
	if err := c.app.Start(); err != nil {
		t.Fatal(err)
	}
}

// sole returns the only process of a handler that runs.
func sole(t testing.TB, h *Handler) *pool.Process {
	t.Helper()
	all := h.pool.Processes()
	if len(all) != 1 {
		t.Fatalf("the handler has %d processes, want 1", len(all))
	}
	return all[0]
}

// lease holds the process of a handler until release is called, or until the end of the test.
func lease(t testing.TB, h *Handler) (p *appserver.Process, release func()) {
	t.Helper()
	l, err := h.pool.Lease()
	if err != nil {
		t.Fatal(err)
	}
	picked, done := l.Pick()
	l.Release()
	release = sync.OnceFunc(done)
	t.Cleanup(release)
	return picked.Process, release
}

// pid returns the process id of a process, once it is ready.
func pid(t testing.TB, p *pool.Process) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := p.Conn(ctx); err != nil {
		t.Fatal(err)
	}
	return p.Status().PID
}

// gone reports whether there is no process with an id.
func gone(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

// eventually waits until a condition is true.
func eventually(t testing.TB, what string, happened func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !happened(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it never came to this: ", what)
		}
	}
}

func encode(t testing.TB, v any) json.RawMessage {
	t.Helper()
	encoded, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

// resolved returns the configuration of an app-server without its placeholders.
func resolved(t testing.TB, server *AppServer) appserver.Config {
	t.Helper()
	cfg, err := server.resolve(caddy.NewReplacer())
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}
