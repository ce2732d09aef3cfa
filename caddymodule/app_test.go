package caddymodule

import (
	"encoding/json"
	"net"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"

	"github.com/caddy-codex/caddy-codex/internal/appserver"
	"github.com/caddy-codex/caddy-codex/internal/pool"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/ports"
)

// site returns a whole configuration that serves handlers at an address.
func site(t testing.TB, address string, handlers ...*Handler) []byte {
	t.Helper()
	var routes []any
	for _, h := range handlers {
		routes = append(routes, map[string]any{"handle": []json.RawMessage{
			caddyconfig.JSONModuleObject(h, "handler", "codex", nil),
		}})
	}
	return encode(t, map[string]any{
		"admin": map[string]any{"disabled": true, "config": map[string]any{"persist": false}},
		"apps": map[string]any{"http": map[string]any{"servers": map[string]any{"site": map[string]any{
			"listen":          []string{address},
			"automatic_https": map[string]any{"disable": true},
			"routes":          routes,
		}}}},
	})
}

const anyPort = "127.0.0.1:0"

// load lets Caddy run a configuration, instead of the previous one, until the end of the test.
// It returns the process of its last handler.
func load(t testing.TB, config []byte) *pool.Process {
	t.Helper()
	must.OK(t, caddy.Load(config, true))
	t.Cleanup(func() {
		if err := caddy.Stop(); err != nil {
			t.Error(err)
		}
		supervisor.Wait()
		if n := pooled(); n > 0 {
			t.Errorf("%d processes are left", n)
		}
	})
	handlers := handlersInUse.all()
	return sole(t, handlers[len(handlers)-1])
}

func TestReloadReplacesTheProcess(t *testing.T) {
	old := load(t, site(t, anyPort, fakeHandler(t, "old")))
	before := pid(t, old)
	stream, release := lease(t, handlersInUse.all()[0])
	next := load(t, site(t, anyPort, fakeHandler(t, "new")))
	if now := pid(t, next); now == before {
		t.Errorf("the process %d goes on with another configuration", now)
	}
	if status := stream.Status(); status.State != appserver.StateReady || status.PID != before {
		t.Errorf("the old process under its stream: %+v", status)
	}
	release()
	must.Happen(t, "the old process ended", func() bool { return stream.Status().State == appserver.StateStopped })
	if !gone(before) || pooled() != 1 {
		t.Errorf("process %d has gone: %t; %d processes in the pool", before, gone(before), pooled())
	}
}

// A configuration that is refused starts nothing, and leaves the running one's process alone.
func TestRefusedReload(t *testing.T) {
	u := load(t, site(t, anyPort, fakeHandler(t, "running")))
	before := pid(t, u)
	bad := fakeHandler(t, "refused")
	bad.APIKeys = []APIKey{{Key: ""}}
	config := site(t, anyPort, fakeHandler(t, "refused"), bad)
	if err := caddy.Load(config, true); err == nil || !strings.Contains(err.Error(), "api_key 1 is empty") {
		t.Fatalf("loading: %v", err)
	}
	// Had it been started, its stop would be under way in the background.
	if n := pooled(); n != 1 || pid(t, u) != before {
		t.Errorf("%d processes, process %d instead of %d", n, pid(t, u), before)
	}
	checked := new(caddy.Config)
	must.OK(t, json.Unmarshal(site(t, anyPort, fakeHandler(t, "validated")), checked))
	if err := caddy.Validate(checked); err != nil || pooled() != 1 {
		t.Errorf("validating: %v, %d processes", err, pooled())
	}
}

// A configuration may also fail after the app has started, since apps start in random order.
// New processes are stopped then, and shared ones continue.
func TestReloadThatFailsToStart(t *testing.T) {
	taken, err := net.Listen("tcp", anyPort)
	must.OK(t, err)
	defer taken.Close()
	u := load(t, site(t, anyPort, fakeHandler(t, "running")))
	before := pid(t, u)
	for range 4 {
		for _, name := range []string{"running", "failed"} {
			if err := caddy.Load(site(t, taken.Addr().String(), fakeHandler(t, name)), true); err == nil {
				t.Fatal("a configuration with an address in use was accepted")
			}
			supervisor.Wait()
			if n := pooled(); n != 1 || pid(t, u) != before {
				t.Fatalf("%s: %d processes, process %d instead of %d", name, n, pid(t, u), before)
			}
		}
	}
}

func freeAddress(t testing.TB) string {
	t.Helper()
	addr, err := ports.Free()
	must.OK(t, err)
	return addr
}

// A new request detects the exit.
func TestExitWatch(t *testing.T) {
	exiting := false
	w := newExitWatch(func() bool { return exiting })
	if w.hasBegun() || w.untilBegun.Err() != nil {
		t.Error("the exit begins by itself")
	}
	exiting = true
	if !w.hasBegun() || w.untilBegun.Err() == nil {
		t.Error("the exit was not detected")
	}
}

// The event of a configuration that stops is enough to detect the exit, and it is none by itself.
func TestExitEvent(t *testing.T) {
	var exiting bool
	defer func(before *exitWatch) { exit = before }(exit)
	exit = newExitWatch(func() bool { return exiting })
	stop := func() {
		t.Helper()
		e, err := caddy.NewEvent(caddy.Context{}, "stopping", nil)
		must.OK(t, err)
		if err := new(App).Handle(t.Context(), e); err != nil {
			t.Error(err)
		}
	}
	stop()
	if exit.untilBegun.Err() != nil {
		t.Error("a reload counts as the exit")
	}
	exiting = true
	stop()
	if exit.untilBegun.Err() == nil {
		t.Error("the exit was not detected")
	}
}
