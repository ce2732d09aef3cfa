package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// counts are what one operation of a benchmark costs.
type counts struct {
	allocs, bytes float64
	instructions  float64 // 0: not counted
}

// tree is a checked out commit with the test programs of its packages.
type tree struct {
	dir, programs string
	valgrind      string // the program; empty: instructions are not counted
}

// program returns the test program of a package, built once, or "" if the commit has none.
func (t *tree) program(ctx context.Context, pkg string) (string, error) {
	if _, err := os.Stat(filepath.Join(t.dir, pkg)); err != nil {
		return "", nil
	}
	program := filepath.Join(t.programs, strings.ReplaceAll(pkg, "/", "_"))
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	// What the race detector does is not to be counted, should GOFLAGS ask for it.
	build := exec.CommandContext(ctx, "go", "test", "-race=false", "-c", "-o", program, "./"+pkg)
	build.Dir = t.dir
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the tests of %s: %w\n%s", pkg, err, out)
	}
	return program, nil
}

// measure returns the counts of a stage, and whether the commit has it.
func (t *tree) measure(ctx context.Context, s stage) (counts, bool, error) {
	program, err := t.program(ctx, s.pkg)
	if program == "" {
		return counts{}, false, err
	}
	out, err := t.run(ctx, program, s, s.n)
	if err != nil {
		return counts{}, false, err
	}
	c, found := readCounts(out)
	if !found || t.valgrind == "" {
		return c, found, nil
	}
	// What the program needs for its start is counted in both runs.
	once, err := t.run(ctx, program, s, 1)
	c.instructions = (readInstructions(out) - readInstructions(once)) / float64(s.n-1)
	return c, true, err
}

// runTimeout is the most that a run may take.
const runTimeout = 5 * time.Minute

// run runs a stage n times and returns what the program prints. Without garbage
// collections and on one processor its counts are nearly the same each time.
func (t *tree) run(ctx context.Context, program string, s stage, n int) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	name := "^Benchmark" + strings.ReplaceAll(s.bench, "/", "$/^") + "$"
	args := []string{program, "-test.run", "^$", "-test.bench", name, "-test.benchmem", "-test.benchtime", strconv.Itoa(n) + "x"}
	if t.valgrind != "" {
		args = append([]string{t.valgrind, "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"}, args...)
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = filepath.Join(t.dir, s.pkg)
	cmd.Env = append(os.Environ(), "GOGC=off", "GOMAXPROCS=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", s.pkg, s.bench, err, out)
	}
	return string(out), nil
}

// readCounts finds the allocations in the line of a benchmark: "2528 B/op  3 allocs/op".
func readCounts(out string) (c counts, found bool) {
	fields := strings.Fields(out)
	for i := 1; i < len(fields); i++ {
		switch fields[i] {
		case "B/op":
			c.bytes, _ = strconv.ParseFloat(fields[i-1], 64)
		case "allocs/op":
			c.allocs, _ = strconv.ParseFloat(fields[i-1], 64)
			found = true
		}
	}
	return c, found
}

// readInstructions finds the instructions in what Valgrind prints: "I refs: 1,234".
func readInstructions(out string) float64 {
	_, after, _ := strings.Cut(out, "refs:")
	number, _, _ := strings.Cut(strings.TrimSpace(after), "\n")
	n, _ := strconv.ParseFloat(strings.ReplaceAll(number, ",", ""), 64)
	return n
}
