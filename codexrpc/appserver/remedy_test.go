package appserver

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// TestRemedies checks the classes of errors. A program that exits while it is written
// to was started.
func TestRemedies(t *testing.T) {
	brokenPipe := &fs.PathError{Op: "write", Path: "|1", Err: errors.New("broken pipe")}
	for want, err := range map[string]error{
		"/codex/status":                 fmt.Errorf("writing to the app-server: %w", brokenPipe),
		"check the command":             fmt.Errorf("%w %q: %w", errNotStarted, "codex", brokenPipe),
		"it is tried again":             codexrpc.ErrTimeout,
		"install a newer one":           fmt.Errorf("codex 0.1.0 %w", codexrpc.ErrTooOld),
		"check its address and its tok": codexrpc.ErrRefused,
	} {
		if got := remedy(err); !strings.Contains(got, want) {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
	if got := remedy(errStopped); got != "" {
		t.Errorf("after a stop: %q", got)
	}
}
