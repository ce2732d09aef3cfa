package appserver

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// ownsProgram is the mode in which the test binary runs ownProgram.
const ownsProgram = "owns a program"

func init() { parents[ownsProgram] = ownProgram }

// ownProgram is the test binary as a parent of an app-server that only a kill ends. It
// prints the process id of the app-server and runs until it is killed.
func ownProgram() int {
	self, err := os.Executable()
	if err != nil {
		return 1
	}
	cfg := &Config{Command: []string{self}}
	program, err := cfg.startProgram(os.TempDir(), append(os.Environ(), childEnv+"=stubborn"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(program.PID)
	select {}
}

// TestKilledParent checks that a program that does not read the end of its input ends when
// its parent is killed.
func TestKilledParent(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	parent := exec.Command(self)
	parent.Env = append(os.Environ(), childEnv+"="+ownsProgram)
	out, err := parent.StdoutPipe()
	if err == nil {
		err = parent.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = parent.Process.Kill()
		_ = parent.Wait()
	})
	var pid int
	if _, err := fmt.Fscan(out, &pid); err != nil {
		t.Fatal(err)
	}
	if !alive(pid) {
		t.Fatalf("the program %d does not run", pid)
	}
	kill(t, parent.Process.Pid)
	awaitGone(t, pid)
}
