package clients

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/needs"
)

// agent is an agent for a terminal, run as a command. It has a home and a directory of its own, and reaches nothing
// but servers of this machine.
type agent struct {
	t       *testing.T
	dir     string // where it works
	command []string
	env     []string
}

// newAgent returns an agent whose program is a file of node_modules. A script runs in Node.
func newAgent(t *testing.T, program string, env ...string) *agent {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("node_modules", program))
	must.OK(t, err)
	if _, err := os.Stat(path); err != nil {
		needs.Missing(t, program+" is not installed for this system: run `make deps`")
	}
	command := []string{path}
	if filepath.Ext(path) == ".js" {
		node, err := exec.LookPath("node")
		if err != nil {
			needs.Missing(t, "this client needs Node.js 20 or later: install it to run this test")
		}
		command = []string{node, path}
	}
	return &agent{t: t, dir: t.TempDir(), command: command, env: append(sealed(t), env...)}
}

// sealed returns an environment with a home of its own, and with a proxy that is not there for all but this machine.
func sealed(t *testing.T) []string {
	t.Helper()
	cache, err := filepath.Abs("node_modules/.cache") // where Copilot CLI unpacks itself
	must.OK(t, err)
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "XDG_CACHE_HOME=" + cache,
		"HTTP_PROXY=http://127.0.0.1:9", "HTTPS_PROXY=http://127.0.0.1:9", "NO_PROXY=127.0.0.1,localhost",
		"NPM_CONFIG_REGISTRY=http://127.0.0.1:9/", // opencode would look there for long
	}
}

// start returns the agent's command, in a process group that ends with ctx.
func (a *agent) start(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, a.command[0], slices.Concat(a.command[1:], args)...)
	cmd.Dir, cmd.Env = a.dir, a.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// run runs the agent until it ends, and returns what it prints, and whether its exit status is a failure.
func (a *agent) run(args ...string) (printed string, failed bool) {
	a.t.Helper()
	cmd := a.start(e2e.Context(a.t), args...)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	err := cmd.Run()
	if exit := new(exec.ExitError); err != nil && (!errors.As(err, &exit) || !exit.Exited()) {
		a.t.Fatalf("%v: %v\n%s", args, err, &output)
	}
	return strings.TrimSpace(output.String()), err != nil
}

// killed kills the agent while the model works for it, and checks that the server then lets the model go.
func (a *agent) killed(s *e2e.Site, args ...string) {
	a.t.Helper()
	ctx, kill := e2e.ContextWithCancel(a.t)
	defer kill()
	cmd := a.start(ctx, args...)
	must.OK(a.t, cmd.Start())
	s.WaitOpen(1)
	kill()
	if err := cmd.Wait(); err == nil {
		a.t.Error("it ended by itself")
	}
	s.WaitOpen(0)
}

// checkSession checks the last request of a session of so many requests, all of which have a mark: what the model
// was given, in one thread.
func checkSession(t *testing.T, s *e2e.Site, mark string, requests int, given ...string) {
	t.Helper()
	var keys []string
	last := ""
	for _, prompt := range s.Prompts() {
		if all := e2e.EncodeJSON(prompt.Input); strings.Contains(all, mark) {
			keys, last = append(keys, prompt.Key), all
		}
	}
	if len(keys) != requests || len(slices.Compact(slices.Clone(keys))) != 1 {
		t.Errorf("%s: the requests came from the threads %q; %d should come from one", mark, keys, requests)
	}
	for _, want := range given {
		if !strings.Contains(last, want) {
			t.Errorf("%s: the model was not given %q in %s", mark, want, last)
		}
	}
}
