package appserver

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// TestRemedies checks classes of errors. A program that exits while it is written to was started.
func TestRemedies(t *testing.T) {
	brokenPipe := &fs.PathError{Op: "write", Path: "|1", Err: errors.New("broken pipe")}
	for want, err := range map[string]error{
		"/codex/status":                 fmt.Errorf("writing to the app-server: %w", brokenPipe),
		"check the command":             fmt.Errorf("%w %q: %w", errNotStarted, "codex", brokenPipe),
		"it is tried again":             codexrpc.ErrTimeout,
		"install a newer one":           fmt.Errorf("codex 0.1.0 %w", codexrpc.ErrTooOld),
		"raise its limit of open files": fmt.Errorf("%w: open config.toml: %w", errConfig, syscall.EMFILE),
	} {
		if got, _ := remedyFor(err); !strings.Contains(got, want) {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
	if got, _ := remedyFor(errStopped); got != "" {
		t.Errorf("after a stop: %q", got)
	}
}

// TestFinalRemedies checks which errors stay until somebody acts: clients do not try again.
func TestFinalRemedies(t *testing.T) {
	for want, errs := range map[bool][]error{
		true: {
			codexrpc.ErrNotLoggedIn, codexrpc.ErrTooOld, codexrpc.ErrMisconfigured, errLoginFiles, errConfig, exec.ErrNotFound,
			errNoArgument, errEarlyEnd, fmt.Errorf("%w: %w", errNotStarted, fs.ErrNotExist),
		},
		false: {
			codexrpc.ErrTimeout, errors.New("?"),
			fmt.Errorf("%w: %w", errNotStarted, syscall.EAGAIN), fmt.Errorf("%w: %w", errNoDir, syscall.ENOSPC),
		},
	} {
		for _, err := range errs {
			if _, final := remedyFor(err); final != want {
				t.Errorf("%v: final is %t", err, final)
			}
		}
	}
}
