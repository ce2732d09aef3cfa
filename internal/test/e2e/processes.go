package e2e

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/rig"
)

// Codexes returns the processes that a Caddy has started.
func Codexes(caddy int) []int {
	var pids []int
	for _, child := range Children() {
		pid, _, _ := strings.Cut(child, " ")
		if n, err := strconv.Atoi(pid); err == nil && n != caddy {
			pids = append(pids, n)
		}
	}
	return pids
}

// Alive reports whether a process exists.
func Alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

// AllGone returns a function that reports whether these processes have ended.
func AllGone(pids []int) func() bool {
	return func() bool {
		for _, pid := range pids {
			if Alive(pid) {
				return false
			}
		}
		return true
	}
}

// Children returns this process's running descendants as "pid name"; none without /proc.
func Children() []string {
	var found []string
	for _, pid := range rig.Below(os.Getpid()) {
		if name := rig.Name(pid); name != "" {
			found = append(found, fmt.Sprintf("%d %s", pid, name))
		}
	}
	slices.Sort(found)
	return found
}

// Kill kills the descendants whose name has this prefix, and returns their pids.
func Kill(t *testing.T, name string) (pids []int) {
	t.Helper()
	for _, child := range Children() {
		pid, called, _ := strings.Cut(child, " ")
		n, err := strconv.Atoi(pid)
		if err != nil || !strings.HasPrefix(called, name) {
			continue
		}
		if err := syscall.Kill(n, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
		pids = append(pids, n)
	}
	if len(pids) == 0 {
		t.Fatalf("no %s is running: %q", name, Children())
	}
	return pids
}

// AppServers returns the native app-servers, without the run of Codex for its catalogue.
func AppServers() []int {
	var pids []int
	for _, child := range Children() {
		pid, called, _ := strings.Cut(child, " ")
		if n, err := strconv.Atoi(pid); err == nil && strings.HasPrefix(called, "codex") && slices.Contains(rig.Command(n), "app-server") {
			pids = append(pids, n)
		}
	}
	return pids
}
