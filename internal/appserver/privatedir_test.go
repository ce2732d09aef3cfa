package appserver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/logbook"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

const ownsPrivateDir = "owns a private directory"

// ownPrivateDir is the test binary as a program with a private directory. It prints
// the path and runs until it is killed.
func ownPrivateDir() int {
	d, err := newPrivateDir()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(d.path)
	time.Sleep(time.Hour)
	return 0
}

func startOwner(t *testing.T) (owner *exec.Cmd, path string) {
	t.Helper()
	owner, out := startParent(t, ownsPrivateDir)
	_, err := fmt.Fscanln(out, &path)
	must.OK(t, err)
	return owner, path
}

// A start removes the private directory of a killed program, and no other directory.
func TestSweep(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	killed, left := startOwner(t)
	_, living := startOwner(t)
	writeNested(t, filepath.Join(left, "home-1", "codex", "logs"), "x")
	outside := filepath.Join(temp, "of-somebody-else")
	writeNested(t, filepath.Join(outside, "x"), "x")
	must.OK(t, os.Symlink(outside, filepath.Join(left, "link")))
	must.OK(t, os.Symlink(outside, filepath.Join(temp, privatePrefix+"link")))
	writeTestFile(t, filepath.Join(temp, privatePrefix+"file"), "x")
	endParent(killed)

	log := new(logbook.Book)
	p := newTestProcess(t, "", nil)
	p.SetLogger(log.Logger())
	p.Start()
	awaitState(t, p, StateReady)
	log.Await(t, "removed the private directories")
	want := []string{filepath.Base(living), filepath.Base(p.private.Load().path), privatePrefix + "file", privatePrefix + "link", "of-somebody-else"}
	slices.Sort(want)
	if got := entries(t, temp); !slices.Equal(got, want) {
		t.Errorf("there are %q, want %q", got, want)
	}
	if got := entries(t, outside); !slices.Equal(got, []string{"x"}) {
		t.Errorf("beside it there are %q", got)
	}
	if got := entries(t, living); !slices.Equal(got, []string{"tmp", "work"}) {
		t.Errorf("the one that lives has %q", got)
	}
}

// Nothing starts while a private directory cannot be made.
func TestNoPrivateDir(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "none"))
	p := startProcess(t, "", nil)
	if reason := awaitState(t, p, StateBackoff).Reason; reason == "" {
		t.Error("there is no reason")
	}
	must.OK(t, os.Mkdir(os.TempDir(), 0o700))
	awaitState(t, p, StateReady)
}

// TestRemovedPrivateDir removes what a process that runs has in the temporary directory. What
// an app-server needs to live is noticed, the rest is made again for the next one.
func TestRemovedPrivateDir(t *testing.T) {
	for name, c := range map[string]struct {
		path   func(p *Process) string
		exit   bool // the app-server has to exit
		living bool // the directory itself stays
	}{
		"the working directory": {func(p *Process) string { return p.private.Load().workDir() }, true, true},
		"all":                   {func(p *Process) string { return p.private.Load().path }, false, false},
		"the home": {func(p *Process) string {
			homes, _ := filepath.Glob(filepath.Join(p.private.Load().path, "home-*"))
			return homes[0]
		}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			p := newTestProcess(t, "", nil)
			p.times.heartbeat.Every = 10 * time.Millisecond
			p.Start()
			before, path := awaitState(t, p, StateReady), p.private.Load().path
			// At once: in what is removed one by one, the process makes again what is missing.
			must.OK(t, os.Rename(c.path(p), filepath.Join(os.TempDir(), "removed")))
			if c.exit {
				kill(t, before.PID)
			}
			await(t, p, "another app-server", func(s Status) bool { return s.State == StateReady && s.PID != before.PID })
			if _, err := os.Stat(p.Dir()); err != nil {
				t.Error("it has no working directory:", err)
			}
			if same := p.private.Load().path == path; same != c.living {
				t.Errorf("it has the same directory: %t", same)
			}
		})
	}
}

// A locked directory can neither be locked again nor be removed.
func TestPrivateDirThatIsTaken(t *testing.T) {
	path := t.TempDir()
	first, err := lockPrivate(path)
	if err != nil || first == nil {
		t.Fatal(err)
	}
	defer first.Close()
	if _, err := lockPrivate(path); !errors.Is(err, syscall.EWOULDBLOCK) {
		t.Errorf("a second lock gave %v", err)
	}
	if removeAbandoned(path) {
		t.Error("a locked directory was removed")
	}
}
