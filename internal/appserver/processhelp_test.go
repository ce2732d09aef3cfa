package appserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// patience bounds waits that should end soon, on a machine however busy.
const patience = time.Minute

// startProcess starts a process whose program is the test binary in a mode (see
// runChild). The end of the test stops it.
func startProcess(t *testing.T, mode string, change func(*Config)) *Process {
	t.Helper()
	p := newTestProcess(t, mode, change)
	p.Start()
	return p
}

// newTestProcess is startProcess without the start, with short pauses between starts.
func newTestProcess(t *testing.T, mode string, change func(*Config)) *Process {
	t.Helper()
	program, err := os.Executable()
	must.OK(t, err)
	cfg := Config{
		Command:      []string{program, appServerCommand},
		Env:          map[string]string{childEnv: mode, "GORACE": "atexit_sleep_ms=0"},
		startTimeout: patience,
		stopTimeout:  200 * time.Millisecond,
	}
	if change != nil {
		change(&cfg)
	}
	p := New(cfg, nil)
	p.backoff = backoff{first: time.Millisecond, longest: 8 * time.Millisecond, stableAfter: time.Hour}
	t.Cleanup(func() {
		p.Stop()
		if state := p.Status().State; state != StateStopped {
			t.Errorf("it is %s after Stop", state)
		}
	})
	return p
}

// await waits until the process's status is as wanted.
func await(t *testing.T, p *Process, what string, wanted func(Status) bool) Status {
	t.Helper()
	deadline := time.After(patience)
	for {
		_, _, changed := p.published.read()
		status := p.Status()
		if wanted(status) {
			return status
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("it never came to be %s: %+v", what, status)
		}
	}
}

func awaitState(t *testing.T, p *Process, want State) Status {
	t.Helper()
	return await(t, p, want.String(), func(s Status) bool { return s.State == want })
}

// awaitRestarts waits until the process is ready after so many restarts.
func awaitRestarts(t *testing.T, p *Process, n int) Status {
	t.Helper()
	return await(t, p, "restarted", func(s Status) bool { return s.State == StateReady && s.Restarts == n })
}

// awaitGone waits until a process has ended; it may be a zombie.
func awaitGone(t *testing.T, pid int) {
	t.Helper()
	must.Happen(t, fmt.Sprint("no process ", pid), func() bool { return !alive(pid) })
}

func alive(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ESRCH)
	}
	_, state, _ := bytes.Cut(stat, []byte(") "))
	return !bytes.HasPrefix(state, []byte("Z"))
}

func kill(t *testing.T, pid int) {
	t.Helper()
	must.OK(t, syscall.Kill(pid, syscall.SIGKILL))
}

func conn(t *testing.T, p *Process) *codexrpc.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	in, err := p.Instance(ctx)
	must.OK(t, err)
	return in.conn
}

func takeToEnd(t *testing.T, thread *codexrpc.Thread) error {
	t.Helper()
	deadline := time.After(patience)
	for {
		if _, err := thread.Recv(); err != nil {
			return err
		}
		select {
		case <-thread.Ready():
		case <-deadline:
			t.Fatal("the turn never ended")
		}
	}
}

// readPID reads the process id that a child writes to a file.
func readPID(t *testing.T, path string) (pid int) {
	t.Helper()
	must.Happen(t, "a process id in "+path, func() bool {
		text, _ := os.ReadFile(path) // without the file, pid stays 0
		pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
		return pid != 0
	})
	return pid
}
