package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// result counts the end-to-end tests of a release.
type result struct {
	passed     int
	failed     []string
	unfinished []string // when the time was over; others have not begun then
}

func (r *result) String() string {
	if r == nil {
		return "not run"
	}
	return fmt.Sprintf("%d of %d end-to-end tests passed", r.passed, r.all())
}

// all is the number of the tests that were begun.
func (r *result) all() int { return r.passed + len(r.failed) + len(r.unfinished) }

// endToEnd runs the end-to-end tests with a codex. What they print goes to log.
func endToEnd(ctx context.Context, codex, run, timeout string, log io.Writer) (*result, error) {
	cmd := exec.CommandContext(ctx, "go", "test", "-json", "-count=1", "-timeout", timeout, "-run", run, "./internal/test/e2e/...")
	cmd.Env = append(os.Environ(), "CODEX_BIN="+codex)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	r, unfinished := &result{}, make(map[string]bool)
	for lines := json.NewDecoder(out); ; {
		var event struct{ Action, Test, Output string }
		if lines.Decode(&event) != nil {
			break
		}
		if _, err := io.WriteString(log, event.Output); err != nil {
			return nil, errors.Join(err, cmd.Process.Kill(), cmd.Wait())
		}
		switch {
		case event.Test == "" || strings.Contains(event.Test, "/"):
		case event.Action == "run":
			unfinished[event.Test] = true
		case event.Action == "pass":
			r.passed++
			delete(unfinished, event.Test)
		case event.Action == "fail":
			r.failed = append(r.failed, event.Test)
			delete(unfinished, event.Test)
		case event.Action == "skip":
			delete(unfinished, event.Test)
		}
	}
	exit := (*exec.ExitError)(nil)
	if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
		return nil, err
	}
	slices.Sort(r.failed)
	r.unfinished = slices.Sorted(maps.Keys(unfinished))
	if r.all() == 0 {
		return nil, errors.New("no end-to-end test was run")
	}
	return r, nil
}
