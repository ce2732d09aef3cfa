// Package e2e has what the end-to-end tests in the packages below share. They test with
// real clients, a real Caddy with this module, the real codex app-server and the scripted
// model. Caddy runs in the process of the tests, which has only one; so the tests of a
// package run one after another, and packages side by side:
//
//   - a package for each API, with its name
//   - clients: SDKs, the page, the demo, and what the documentation shows them to do
//   - conversations: threads that are kept for the next request, and calls of tools,
//     structured or textual
//   - faults: kills, hangs, disconnects and reloads under load; pools, and several Caddys
//     that share a Redis, behind a balancer
//   - logins: sign-in and renewal, plans with their meters and shares, events, commands
//   - operations: configuration, keys, metrics, start and exit
//   - terminal: Claude Code and Codex as their users see them, on the screen of a terminal
package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/goleak"

	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/caddy-codex/caddy-codex/caddymodule"
	"github.com/caddy-codex/caddy-codex/internal/test/needs"
)

// CodexBinary is the path of the real codex, set by [Main].
var CodexBinary string

// Main runs the tests of a package, those of a testing.M, and returns the exit status: 1 if goroutines or
// processes are left after them. Without codex it runs none.
func Main(m interface{ Run() int }) int {
	var err error
	if CodexBinary, err = findCodex(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		if needs.Required() {
			return 1
		}
		fmt.Fprintln(os.Stderr, "all end-to-end tests were skipped")
		return 0
	}
	if err := errors.Join(chooseLogin(), chooseTransport()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	trustNone()
	remove, err := temporary()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer remove()
	if err := nameNone(os.Getenv("TMPDIR")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	// So that Caddy does not write to the home of the user.
	caddy.DefaultStorage.Path, err = os.MkdirTemp("", "caddy-storage-")
	if err == nil {
		err = os.Setenv("XDG_DATA_HOME", caddy.DefaultStorage.Path) // for the instance id
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	http.DefaultClient.Timeout = 2 * Deadline // requests without a context of their own
	code := m.Run()
	if code == 0 {
		code = checkLeaks()
	}
	return code
}

// findCodex returns the pinned codex of `make test`, or else the one on the PATH.
func findCodex() (string, error) {
	if path := os.Getenv("CODEX_BIN"); path != "" {
		return exec.LookPath(path)
	}
	local, err := filepath.Abs("../../../../.cache/codex/node_modules/.bin/codex")
	if err == nil {
		if path, err := exec.LookPath(local); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath("codex")
	if err != nil {
		return "", fmt.Errorf("these tests need the real codex: run `make deps`, or set CODEX_BIN: %w", err)
	}
	return path, nil
}

// goroutinesLeft returns an error with the goroutines that do not end. Those of a closed
// connection take half a second or more.
func goroutinesLeft() (err error) {
	for end := time.Now().Add(Deadline); time.Now().Before(end); {
		if err = goleak.Find(
			// Caddy's certificate cache never ends.
			goleak.IgnoreAnyFunction("github.com/caddyserver/certmagic.(*Cache).maintainAssets"),
			// This ends a few seconds after its lock is released.
			goleak.IgnoreAnyFunction("github.com/caddyserver/certmagic.keepLockfileFresh"),
			// This rolls Caddy's log files and never ends.
			goleak.IgnoreAnyFunction("github.com/DeRuina/timberjack.(*Logger).millRun"),
			// A store stays open for a while after its configuration. If its Redis could not be
			// reached 20 times, the client tries again until the store is closed.
			goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"),
		); err == nil {
			return nil
		}
	}
	return err
}

// checkLeaks checks that no goroutines and processes are left after the tests.
func checkLeaks() int {
	if err := caddy.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stopping Caddy:", err)
		return 1
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	if err := goroutinesLeft(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if left := Children(); len(left) > 0 {
		fmt.Fprintln(os.Stderr, "processes left behind:", left)
		return 1
	}
	return 0
}
