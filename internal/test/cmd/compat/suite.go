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
	"path"
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
	r := new(result)
	if err := r.read(out, log); err != nil {
		return nil, errors.Join(err, cmd.Process.Kill(), cmd.Wait())
	}
	exit := (*exec.ExitError)(nil)
	if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
		return nil, err
	}
	if r.all() == 0 {
		return nil, errors.New("no end-to-end test was run")
	}
	return r, nil
}

// read counts the tests in the output of go test -json. A package that fails though none of
// its tests does, such as one that cannot be built, is a failure of its name.
func (r *result) read(output io.Reader, log io.Writer) error {
	unfinished := make(map[string]string) // packages of tests
	broken := make(map[string]bool)       // packages with a failed test
	for lines := json.NewDecoder(output); ; {
		var event struct{ Action, Package, Test, Output string }
		if lines.Decode(&event) != nil {
			break
		}
		if _, err := io.WriteString(log, event.Output); err != nil {
			return err
		}
		switch {
		case event.Test == "" && event.Action == "fail":
			if !broken[event.Package] && !slices.Contains(slices.Collect(maps.Values(unfinished)), event.Package) {
				r.failed = append(r.failed, path.Base(event.Package))
			}
		case event.Test == "" || strings.Contains(event.Test, "/"):
		case event.Action == "run":
			unfinished[event.Test] = event.Package
		case event.Action == "pass":
			r.passed++
			delete(unfinished, event.Test)
		case event.Action == "fail":
			r.failed = append(r.failed, event.Test)
			broken[event.Package] = true
			delete(unfinished, event.Test)
		case event.Action == "skip":
			delete(unfinished, event.Test)
		}
	}
	slices.Sort(r.failed)
	r.unfinished = slices.Sorted(maps.Keys(unfinished))
	return nil
}
