package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of CPU time in /proc, on every Linux of today.
const tick = 10 * time.Millisecond

// usage is what processes have used so far.
type usage struct {
	caddy, codex         time.Duration // CPU
	caddyPeak, codexPeak int           // resident memory in kB
}

// usageOf reads what Caddy and all that it has started have used.
func usageOf(caddy int) usage {
	var u usage
	u.caddy, u.caddyPeak = cpu(caddy), peak(caddy)
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err == nil && pid != caddy && descends(pid, caddy) {
			u.codex += cpu(pid)
			u.codexPeak = max(u.codexPeak, peak(pid))
		}
	}
	return u
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

// peak is the largest resident memory, in kB.
func peak(pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(text), "VmHWM:")
	f := strings.Fields(after)
	if len(f) == 0 {
		return 0
	}
	kb, _ := strconv.Atoi(f[0])
	return kb
}
