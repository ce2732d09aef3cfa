package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	// tick is the unit of CPU time in /proc, on every Linux of today.
	tick = 10 * time.Millisecond
	// lookEvery is the pause between two looks at the processes.
	lookEvery = 100 * time.Millisecond
)

// usage is what processes have used so far.
type usage struct {
	caddy, codex         time.Duration // CPU
	caddyPeak, codexPeak int           // resident memory of one process in kB
	allPeak              int           // of all of codex at once: an old one may drain beside a new one
}

// watcher follows what Caddy and all that it has started use. A codex that was
// replaced is gone with its numbers in the end, so that they are read all along.
type watcher struct {
	caddy       int
	quit, ended chan struct{}
	first, last usage
	cpu         map[int]time.Duration // by process
}

// watch begins to follow; the caller ends it.
func watch(caddy int) *watcher {
	w := &watcher{caddy: caddy, quit: make(chan struct{}), ended: make(chan struct{}), cpu: make(map[int]time.Duration)}
	w.look()
	w.first = w.last
	go func() {
		defer close(w.ended)
		for look := time.NewTicker(lookEvery); ; {
			select {
			case <-look.C:
				w.look()
			case <-w.quit:
				look.Stop()
				w.look()
				return
			}
		}
	}()
	return w
}

// end returns the first reading and the last.
func (w *watcher) end() (before, after usage) {
	close(w.quit)
	<-w.ended
	return w.first, w.last
}

// look reads what all of them use.
func (w *watcher) look() {
	u := &w.last
	u.caddy, u.caddyPeak = cpu(w.caddy), memory(w.caddy, "VmHWM:")
	all := 0
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil || pid == w.caddy || !descends(pid, w.caddy) {
			continue
		}
		if used := cpu(pid); used > 0 {
			w.cpu[pid] = used
		}
		all += memory(pid, "VmRSS:")
		u.codexPeak = max(u.codexPeak, memory(pid, "VmHWM:"))
	}
	u.allPeak = max(u.allPeak, all)
	u.codex = 0
	for _, used := range w.cpu {
		u.codex += used
	}
}

// fields are those of /proc/PID/stat behind the name: state, parent, …
func fields(pid int) []string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	_, after, _ := strings.Cut(string(text), ") ")
	return strings.Fields(after)
}

func cpu(pid int) time.Duration {
	f := fields(pid)
	if len(f) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(f[11])
	system, _ := strconv.Atoi(f[12])
	return time.Duration(user+system) * tick
}

func descends(pid, from int) bool {
	for range 10 {
		f := fields(pid)
		if len(f) < 2 {
			return false
		}
		if pid, _ = strconv.Atoi(f[1]); pid == from {
			return true
		}
	}
	return false
}

// memory is one of the sizes in a process's status, in kB: VmRSS is what is
// resident, VmHWM the most that ever was.
func memory(pid int, size string) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(text), size)
	f := strings.Fields(after)
	if len(f) == 0 {
		return 0
	}
	kb, _ := strconv.Atoi(f[0])
	return kb
}
