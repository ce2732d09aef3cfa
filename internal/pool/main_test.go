package pool

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/caddy-codex/caddy-codex/internal/appserver"
	"github.com/caddy-codex/caddy-codex/internal/test/fakeserver"
)

// patience is the time within which anything happens, even on a busy machine.
const patience = time.Minute

func TestMain(m *testing.M) {
	fakeserver.Main()
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if err := childless(); err != nil && code == 0 {
			println("left after the tests:", err.Error())
			code = 1
		}
		os.Exit(code)
	}))
}

// childless returns an error if this process has a child, running or not waited for.
func childless() error {
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil); !errors.Is(err, syscall.ECHILD) {
		return errors.New("a child process")
	}
	return nil
}

// configuration is a configuration whose program ends it with cleanup.
type configuration struct {
	*Configuration
	cleanup func()
}

// newSupervisor returns a supervisor that has to have stopped all by the end of the test.
func newSupervisor(t testing.TB) *Supervisor {
	s := NewSupervisor(Options{Exiting: func() bool { return false }, Ready: func(*Process) {}})
	t.Cleanup(func() {
		s.Wait()
		if n := len(s.All()) + len(s.logins.values()); n > 0 {
			t.Errorf("%d processes and logins are left", n)
		}
	})
	return s
}

// newConfiguration returns a configuration with pools of these servers, one each. It is not started.
func newConfiguration(t testing.TB, s *Supervisor, pools ...[]Server) (*configuration, []*Pool) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	c := &configuration{Configuration: s.NewConfiguration(ctx, slog.New(slog.DiscardHandler), func(string, map[string]any) {})}
	c.cleanup = func() {
		cancel()
		c.Release()
		s.Wait()
	}
	t.Cleanup(c.cleanup)
	var all []*Pool
	for _, servers := range pools {
		all = append(all, poolOf(t, c, servers))
	}
	return c, all
}

func poolOf(t testing.TB, c *configuration, servers []Server) *Pool {
	t.Helper()
	p, err := c.Pool(servers, Policy{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// startedPool returns the pool of a configuration, with all members ready.
func startedPool(t *testing.T, servers []Server) (*configuration, *Pool) {
	t.Helper()
	c, pools := newConfiguration(t, newSupervisor(t), servers)
	c.Start()
	c.Open()
	for _, m := range c.members {
		pid(t, m)
	}
	return c, pools[0]
}

// fakes are so many fake app-servers with a name.
func fakes(t testing.TB, name string, processes int) []Server {
	command, env := fakeserver.Command(t, name)
	return []Server{{
		Config:    appserver.Config{Command: command, Env: env},
		Processes: processes,
	}}
}

func sole(t testing.TB, c *configuration) *member {
	t.Helper()
	if len(c.members) != 1 {
		t.Fatalf("the configuration has %d members, want 1", len(c.members))
	}
	for _, m := range c.members {
		return m
	}
	return nil
}

// lease holds the process of a member until release is called, or until the end of the test.
func lease(t testing.TB, m *member) (p *Process, release func()) {
	t.Helper()
	release = sync.OnceFunc(m.release)
	p = m.acquire()
	t.Cleanup(release)
	return p, release
}

// pid returns the process id of a member, once it is ready.
func pid(t testing.TB, m *member) int {
	t.Helper()
	p, release := lease(t, m)
	defer release()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := p.Instance(ctx); err != nil {
		t.Fatal(err)
	}
	return p.Status().PID
}

// references counts the references to the process of a member.
func references(m *member) int { return m.configuration.supervisor.processes.holders(m.key) }

// gone reports whether there is no process with an id.
func gone(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }
