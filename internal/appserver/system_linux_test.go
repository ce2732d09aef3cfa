package appserver

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

const ownsProgram = "owns a program"

func init() { parents[ownsProgram] = ownProgram }

// ownProgram is the test binary as a parent of an app-server, and of a program that prints its
// catalogue, that only a kill ends. It prints their process ids and runs until it is killed.
func ownProgram() int {
	self, err := os.Executable()
	if err != nil {
		return 1
	}
	cfg, env := &Config{Command: []string{self, appServerCommand}}, append(os.Environ(), childEnv+"=stubborn models-hang")
	program, err := cfg.startProgram(os.TempDir(), env)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	printing, err := cfg.startCatalogue(context.Background(), os.TempDir(), env, time.Hour)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(program.PID, printing.cmd.Process.Pid)
	time.Sleep(time.Hour)
	return 0
}

// Programs that do not read the end of their input end when their parent is killed.
func TestKilledParent(t *testing.T) {
	t.Parallel()
	parent, out := startParent(t, ownsProgram)
	var pids [2]int
	_, err := fmt.Fscan(out, &pids[0], &pids[1])
	must.OK(t, err)
	for _, pid := range pids {
		if !alive(pid) {
			t.Fatalf("the program %d does not run", pid)
		}
	}
	kill(t, parent.Process.Pid)
	for _, pid := range pids {
		awaitGone(t, pid)
	}
}

// TestOwnMemory checks that the memory of a process is what it has of its own.
func TestOwnMemory(t *testing.T) {
	for text, want := range map[string]int64{
		"Name:\tcodex\nVmRSS:\t  138240 kB\nRssAnon:\t   24000 kB\nRssFile:\t  112640 kB\nRssShmem:\t    1600 kB\nVmSwap:\t     400 kB\n": 26000 << 10,
		"RssAnon:\t7 kB": 7 << 10,
		"VmSwap:\t7 kB":  -1, "": -1, "RssAnon: many": -1,
	} {
		if got, ok := parseOwnMemory([]byte(text)); ok != (want >= 0) || ok && got != want {
			t.Errorf("%q: %d, %t", text, got, ok)
		}
	}
	if own, ok := ownMemory(os.Getpid()); !ok || own <= 0 {
		t.Errorf("this process has %d, %t", own, ok)
	}
	if _, ok := ownMemory(1 << 30); ok {
		t.Error("a process that does not exist has memory")
	}
}
