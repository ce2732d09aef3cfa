package appserver

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/test/logbook"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// A turn whose child is killed ends with ErrClosed, and the next child takes turns.
func TestKilledInATurn(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "", nil)
	first := awaitState(t, p, StateReady)
	thread := open(t, conn(t, p))
	kill(t, first.PID)
	if err := takeToEnd(t, thread); !errors.Is(err, codexrpc.ErrClosed) || strings.Contains(err.Error(), "this client") {
		t.Errorf("the turn ended with %v", err)
	}
	closed(thread)
	if second := awaitRestarts(t, p, 1); second.PID == first.PID || second.Version != first.Version {
		t.Errorf("restarted as %+v", second)
	}
	open(t, conn(t, p))
}

func TestKilledInACall(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "dies:thread/start", nil)
	c := conn(t, p)
	if _, err := c.StartThread(t.Context(), codexrpc.ThreadStartParams{}); !errors.Is(err, codexrpc.ErrClosed) {
		t.Errorf("the call ended with %v", err)
	}
	awaitRestarts(t, p, 1)
}

// A child that is killed again and again is started again and again. The failures are counted, and
// forgotten once a child was ready for long enough.
func TestKillsInALoop(t *testing.T) {
	t.Parallel()
	const kills = 5
	for want, stableAfter := range map[int]time.Duration{kills: time.Hour, 0: 0} {
		p := newTestProcess(t, "", nil)
		p.backoff.stableAfter = stableAfter
		p.Start()
		for n := range kills {
			kill(t, awaitRestarts(t, p, n).PID)
		}
		awaitRestarts(t, p, kills)
		p.Stop()
		if n := p.backoff.failures; n != want {
			t.Errorf("%d failures are remembered, want %d", n, want)
		}
	}
}

// The exit of a program is noticed though a process that has left its group keeps its pipes open.
func TestExitWithOpenPipes(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pid")
	p := newTestProcess(t, "abandons", func(cfg *Config) { cfg.Env[pathEnv] = path })
	p.backoff = backoff{first: time.Hour, longest: time.Hour, stableAfter: time.Hour}
	p.Start()
	if reason := awaitState(t, p, StateBackoff).Reason; !strings.Contains(reason, "exit status 7") {
		t.Errorf("the reason is %q", reason)
	}
	kill(t, readPID(t, path))
}

// TestClosedOutput checks that a child that closes its output is replaced.
func TestClosedOutput(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "hangs-up:model/list", nil)
	first := awaitState(t, p, StateReady)
	if _, err := conn(t, p).Models(t.Context()); !errors.Is(err, codexrpc.ErrClosed) {
		t.Errorf("the call ended with %v", err)
	}
	awaitRestarts(t, p, 1)
	awaitGone(t, first.PID)
}

// Conn does not return a connection that has ended.
func TestDeadConnectionIsNotGiven(t *testing.T) {
	t.Parallel()
	p := newTestProcess(t, "", nil)
	p.backoff.first, p.backoff.longest = time.Hour, time.Hour
	p.Start()
	c := conn(t, p)
	kill(t, p.Status().PID)
	<-c.Done()
	var notReady *NotReadyError
	if again, err := p.Instance(t.Context()); !errors.As(err, &notReady) {
		t.Errorf("got %p (%v), the dead one is %p", again, err, c)
	}
}

// shell returns the command of a shell that runs a script, in which $0 is the program. It
// leaves the run for the catalogue to that.
func shell(script, program string) []string {
	return []string{"/bin/sh", "-c", `[ "$1" = debug ] && exec "$0" "$@"; ` + script, program, appServerCommand}
}

// launcher starts a process whose program is a shell that starts the test binary, as the launcher
// from npm starts codex. inner returns the process id of the next test binary.
func launcher(t *testing.T, mode, script string) (p *Process, inner func() int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pid")
	p = newTestProcess(t, mode, func(cfg *Config) {
		cfg.Command = shell(script, cfg.Command[0])
		cfg.Env[pathEnv] = path
	})
	p.Start()
	return p, func() int {
		pid := readPID(t, path)
		must.OK(t, os.Remove(path))
		return pid
	}
}

// inBackground starts the child with the stdin of the shell, as the real launcher
// does. A shell gives background jobs an empty one.
const inBackground = `exec 3<&0; "$0" <&3 3<&- & exec 3<&-; echo $! >"$` + pathEnv + `.new"; mv "$` + pathEnv + `.new" "$` + pathEnv + `"; wait`

func TestKilledLauncher(t *testing.T) {
	t.Parallel()
	p, inner := launcher(t, "stubborn", inBackground)
	outer := awaitState(t, p, StateReady).PID
	pid := inner()
	if pid == outer || !alive(pid) {
		t.Fatalf("the child %d of %d does not run", pid, outer)
	}
	kill(t, outer)
	awaitGone(t, pid)
	awaitRestarts(t, p, 1)
	second := inner()
	p.Stop()
	awaitGone(t, second)
}

// Stop ends everything that the program has started, also if the program itself exits at once.
func TestStopEndsGrandchildren(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"launcher_waits":  inBackground,
		"launcher_leaves": `sleep 1000 <&- >&- 2>&- & echo $! >"$` + pathEnv + `.new"; mv "$` + pathEnv + `.new" "$` + pathEnv + `"; exec "$0"`,
	} {
		t.Run(name, func(t *testing.T) {
			p, inner := launcher(t, "", script)
			awaitState(t, p, StateReady)
			pid := inner()
			p.Stop()
			awaitGone(t, pid)
		})
	}
}

// TestStopClosesStdin checks that the end of its stdin ends a program.
func TestStopClosesStdin(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "", func(cfg *Config) { cfg.stopTimeout = 4 * patience })
	awaitState(t, p, StateReady)
	begin := time.Now()
	p.Stop()
	if took := time.Since(begin); took >= 2*patience {
		t.Errorf("it took %s: the end of its input was not enough", took)
	}
}

// TestStopOfAProgramThatDoesNotGo checks SIGTERM, and then SIGKILL.
func TestStopOfAProgramThatDoesNotGo(t *testing.T) {
	t.Parallel()
	t.Run("terminated", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "told")
		p := newTestProcess(t, "deaf", func(cfg *Config) {
			cfg.Env[pathEnv] = path
		})
		env, err := p.prepareChild(&instance{})
		must.OK(t, err)
		defer p.private.Load().remove()
		defer p.relay.Load().close()
		program, err := p.cfg.startProgram(p.Dir(), env)
		must.OK(t, err)
		in := &instance{exited: make(chan struct{})}
		in.attachProgram(program, p.Log)
		if _, err := in.conn.Initialize(t.Context(), codexrpc.ClientInfo{}); err != nil {
			t.Error(err)
		}
		if err := in.endChild(time.Millisecond, patience); err != nil {
			t.Error(err)
		}
		awaitGone(t, program.PID)
		if told, err := os.ReadFile(path); err != nil || string(told) != "terminated" {
			t.Errorf("it was told %q (%v)", told, err)
		}
	})
	t.Run("killed", func(t *testing.T) {
		p := startProcess(t, "stubborn", func(cfg *Config) { cfg.stopTimeout = 20 * time.Millisecond })
		pid := awaitState(t, p, StateReady).PID
		p.Stop()
		awaitGone(t, pid)
	})
}

// TestStopDuringTheStart checks that Stop does not wait for a start that is under way.
func TestStopDuringTheStart(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"", "mute:initialize", "mute:getAuthStatus"} {
		p := startProcess(t, mode, func(cfg *Config) { cfg.startTimeout = 10 * patience })
		pid := p.Status().PID
		if pid == 0 {
			t.Error("Start returned before the fork")
		}
		begin := time.Now()
		p.Stop()
		if took := time.Since(begin); took > patience {
			t.Errorf("%q: stopping took %s", mode, took)
		}
		awaitGone(t, pid)
	}
}

// TestDescriptorsAreClosed checks that no file descriptor of a process is left.
func TestDescriptorsAreClosed(t *testing.T) {
	count := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		must.OK(t, err)
		return len(entries)
	}
	once := func() {
		p := startProcess(t, "", nil)
		kill(t, awaitState(t, p, StateReady).PID)
		awaitRestarts(t, p, 1)
		p.Stop()
	}
	once() // what the runtime opens once and for all
	before := count()
	for range 3 {
		once()
	}
	if after := count(); after > before {
		t.Errorf("%d descriptors were open, now %d", before, after)
	}
}

// SetLogger changes the logger of stderr and of the connection.
func TestLoggerIsReplaced(t *testing.T) {
	t.Parallel()
	first := new(logbook.Book)
	p := newTestProcess(t, "complains", nil)
	p.SetLogger(first.Logger())
	p.Start()
	c := conn(t, p)
	first.Await(t, "asked for getAuthStatus")
	second := new(logbook.Book)
	p.SetLogger(second.Logger())
	if _, err := c.Models(t.Context()); err != nil {
		t.Fatal(err)
	}
	second.Await(t, "asked for model/list")
	second.Await(t, "unreadable line")
	if strings.Contains(first.String(), "model/list") {
		t.Error("the old log goes on")
	}
	p.SetLogger(nil) // discards
}

func TestBackoffDoubles(t *testing.T) {
	b := newBackoff()
	for _, most := range []time.Duration{
		100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond, 1600 * time.Millisecond,
		3200 * time.Millisecond, 6400 * time.Millisecond, 12800 * time.Millisecond, 25600 * time.Millisecond, 30 * time.Second, 30 * time.Second,
	} {
		if pause := b.nextPause(); pause > most || pause < most-most/4 {
			t.Errorf("after %d failures the pause is %s, want %s or up to a quarter less", b.failures-1, pause, most)
		}
	}
	b.failures = math.MaxInt32
	if pause := b.nextPause(); pause > b.longest || pause <= 0 {
		t.Errorf("after very many failures the pause is %s", pause)
	}
}
