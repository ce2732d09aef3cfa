package caddymodule

import (
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
	"go.uber.org/goleak"

	_ "github.com/caddyserver/caddy/v2/modules/standard"

	"github.com/caddy-codex/caddy-codex/internal/test/fakeserver"
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

// pooled counts the processes of the pool.
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

// fakeServer returns the configuration of a fake app-server.
func fakeServer(t testing.TB, name string) *AppServer {
	t.Helper()
	command, env := fakeserver.Command(t, name)
	program, err := fakeProgram()
	if err != nil {
		t.Fatal(err)
	}
	command[0] = program
	return &AppServer{Command: command, Env: env, StartTimeout: caddy.Duration(patience), StopTimeout: caddy.Duration(patience)}
}

// fakeHandler returns the configuration of a handler with a fake of that name.
func fakeHandler(t testing.TB, name string) *Handler {
	t.Helper()
	return &Handler{AppServers: []*AppServer{fakeServer(t, name)}}
}
