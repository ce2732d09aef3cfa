package rig

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Below returns the running descendants of a process.
func Below(pid int) []int {
	parents := make(map[int]int)
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			continue
		}
		// A process that has just exited has no fields, a zombie has the state Z.
		if f := fields(child); len(f) > 1 && f[0] != "Z" {
			parents[child], _ = strconv.Atoi(f[1])
		}
	}
	var below []int
	for child := range parents {
		for p := parents[child]; p > 1; p = parents[p] {
			if p == pid {
				below = append(below, child)
				break
			}
		}
	}
	slices.Sort(below)
	return below
}

// Name returns the short name of a process's program, or "" if it has exited.
func Name(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(string(text), "\n")
}

// fields returns the fields of /proc/PID/stat after the name: state, parent, …
func fields(pid int) []string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	return strings.Fields(string(text)[strings.LastIndexByte(string(text), ')')+1:])
}

// CPU returns the CPU time of a process, or 0 if it has exited.
func CPU(pid int) time.Duration {
	var t unix.Timespec
	// The clock of another process, as clock_getcpuclockid makes its number.
	const scheduled = 2
	if err := unix.ClockGettime(int32(^pid<<3|scheduled), &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// Usage is what processes use.
type Usage struct {
	CPU    time.Duration
	Memory int // resident memory, in kB
}

// UsageBelow returns what the descendants of a process use together.
func UsageBelow(pid int) (u Usage) {
	for _, pid := range Below(pid) {
		u.CPU += CPU(pid)
		u.Memory += Memory(pid)
	}
	return u
}

// Memory returns the resident memory of a process in kB, or 0 if it has exited.
func Memory(pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(text), "VmRSS:")
	f := strings.Fields(after)
	if len(f) == 0 {
		return 0
	}
	kb, _ := strconv.Atoi(f[0])
	return kb
}

// Files returns the number of open files of a process.
func Files(pid int) int {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return 0
	}
	return len(entries)
}

// Command returns the program and arguments of a process, or nil if it has exited.
func Command(pid int) []string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || len(text) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
}
