package rig

import (
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/needs"
)

// TestProcesses reads this process, a grandchild, and a process that has exited.
func TestProcesses(t *testing.T) {
	if _, err := os.Stat("/proc/self/status"); err != nil {
		needs.Missing(t, "processes are looked at in /proc: run this test on Linux")
	}
	cmd := exec.Command("sh", "-c", "cat; true")
	stdin, err := cmd.StdinPipe()
	must.OK(t, err)
	stdout, err := cmd.StdoutPipe()
	must.OK(t, err)
	must.OK(t, cmd.Start())
	if _, err := stdin.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := stdout.Read(make([]byte, 1)); err != nil { // cat runs
		t.Fatal(err)
	}
	below := Below(os.Getpid())
	child := cmd.Process.Pid
	at := slices.IndexFunc(below, func(pid int) bool { return Name(pid) == "cat" })
	if at < 0 || !slices.Contains(below, child) {
		t.Fatalf("below are %v, the child is %d", below, child)
	}
	if got := Below(child); !slices.Equal(got, below[at:at+1]) {
		t.Errorf("below the child are %v, want %d", got, below[at])
	}
	if got := Command(below[at]); !slices.Equal(got, []string{"cat"}) {
		t.Errorf("its command is %q", got)
	}
	if Memory(child) == 0 || Files(os.Getpid()) == 0 || CPU(1<<22) != 0 {
		t.Error("sizes are missing")
	}
	_ = stdin.Close()
	must.OK(t, cmd.Wait())
	if Name(child) != "" || Memory(child) != 0 || Files(child) != 0 || Command(child) != nil {
		t.Error("a process that has ended is still there")
	}
}
