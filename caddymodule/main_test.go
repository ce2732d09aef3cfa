package caddymodule

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
	"go.uber.org/goleak"

	"github.com/caddy-codex/caddy-codex/internal/appserver"
	"github.com/caddy-codex/caddy-codex/internal/pool"
	"github.com/caddy-codex/caddy-codex/internal/test/fakeserver"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// patience is the time within which anything happens, even on a busy machine.
const patience = time.Minute

// TestMain runs the tests and checks that they leave nothing behind.
func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "caddy-storage-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	// Caddy is not to write this machine's home.
	caddy.DefaultStorage.Path = dir
	if err := os.Setenv("XDG_DATA_HOME", dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if code := m.Run(); code != 0 {
		return code
	}
	if err := leftovers(); err != nil {
		fmt.Fprintln(os.Stderr, "left after the tests:", err)
		return 1
	}
	return 0
}

// leftovers returns an error if references, processes or goroutines are left.
func leftovers() error {
	if err := caddy.Stop(); err != nil {
		return fmt.Errorf("stopping Caddy: %w", err)
	}
	supervisor.Wait()
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	if n := pooled(); n > 0 {
		return fmt.Errorf("%d processes in the pool", n)
	}
	if err := childless(); err != nil {
		return err
	}
	return goleak.Find(
		// Caddy's certificate cache has no end once a configuration was loaded.
		goleak.IgnoreAnyFunction("github.com/caddyserver/certmagic.(*Cache).maintainAssets"),
		// It ends a few seconds after its lock was given back.
		goleak.IgnoreAnyFunction("github.com/caddyserver/certmagic.keepLockfileFresh"),
	)
}

// childless returns an error if this process has a child, running or not waited for.
func childless() error {
	var status syscall.WaitStatus
	pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
	if errors.Is(err, syscall.ECHILD) {
		return nil
	}
	return fmt.Errorf("a child process: %d, %v", pid, err)
}

func pooled() int { return len(supervisor.All()) }

// fakeProgram builds the fake app-server. The test binary could be one, but it has all of Caddy in it
// and takes ten times as long to start.
var fakeProgram = sync.OnceValues(func() (string, error) {
	program := filepath.Join(caddy.DefaultStorage.Path, "fakeserver")
	output, err := exec.Command("go", "build", "-race=false", "-o", program, "../internal/test/cmd/fakeserver").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building the fake app-server: %w: %s", err, output)
	}
	return program, nil
})

func fakeServer(t testing.TB, name string) *AppServer {
	t.Helper()
	command, env := fakeserver.Command(t, name)
	program, err := fakeProgram()
	must.OK(t, err)
	command[0] = program
	return &AppServer{Command: command, Env: env}
}

// fakeHandler returns the configuration of a handler with a fake of that name.
func fakeHandler(t testing.TB, name string) *Handler {
	t.Helper()
	return &Handler{AppServers: []*AppServer{fakeServer(t, name)}}
}

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
		must.OK(t, err)
		c.handlers = append(c.handlers, loaded.(*Handler))
	}
	app, err := ctx.App("codex")
	must.OK(t, err)
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
	must.OK(t, err)
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
	must.OK(t, c.app.Start())
}

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
	must.OK(t, err)
	picked, done := l.Pick("")
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
	if _, err := p.Instance(ctx); err != nil {
		t.Fatal(err)
	}
	return p.Status().PID
}

// gone reports whether there is no process with an id.
func gone(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

func encode(t testing.TB, v any) json.RawMessage {
	t.Helper()
	encoded, err := json.Marshal(v)
	must.OK(t, err)
	return encoded
}

// resolved returns the configuration of an app-server without its placeholders.
func resolved(t testing.TB, server *AppServer) appserver.Config {
	t.Helper()
	cfg, err := server.resolve(caddy.NewReplacer())
	must.OK(t, err)
	return cfg
}
