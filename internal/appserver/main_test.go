package appserver

import (
	"io"
	"os"
	"os/exec"
	"testing"

	"go.uber.org/goleak"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// parents are the modes in which the test binary is no app-server, but has something that
// is left if it is killed.
var parents = map[string]func() int{ownsPrivateDir: ownPrivateDir}

// TestMain is the child process of the tests, or checks that no goroutine outlives them.
func TestMain(m *testing.M) {
	// Set, if empty: a child that ran the tests would start children of its own.
	if mode, ok := os.LookupEnv(childEnv); ok {
		if parent := parents[mode]; parent != nil {
			os.Exit(parent())
		}
		os.Exit(runChild(mode))
	}
	goleak.VerifyTestMain(m)
}

// startParent starts the test binary as one of the parents. out is what it prints.
func startParent(t *testing.T, mode string) (parent *exec.Cmd, out io.Reader) {
	t.Helper()
	program, err := os.Executable()
	must.OK(t, err)
	parent = exec.Command(program)
	parent.Env = append(os.Environ(), childEnv+"="+mode)
	if out, err = parent.StdoutPipe(); err == nil {
		err = parent.Start()
	}
	must.OK(t, err)
	t.Cleanup(func() { endParent(parent) })
	return parent, out
}

func endParent(parent *exec.Cmd) {
	_ = parent.Process.Kill()
	_ = parent.Wait() // a second wait fails, which is no matter
}
