package pool

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/appserver"
)

// TestLife: changes of state give the expected events.
func TestLife(t *testing.T) {
	replaced := appserver.Status{State: appserver.StateReady, PID: 2, Replacements: 1}
	starting := appserver.Status{State: appserver.StateStarting}
	ready := func(pid int) appserver.Status {
		return appserver.Status{State: appserver.StateReady, PID: pid, Version: "0.169.0"}
	}
	stopping := func(pid int) appserver.Status {
		return appserver.Status{State: appserver.StateStopping, PID: pid, Reason: "it exited"}
	}
	backoff := appserver.Status{State: appserver.StateBackoff, Reason: "it exited (signal: killed)"}
	again := appserver.Status{State: appserver.StateStarting, Reason: "it exited (signal: killed)", Restarts: 1}
	silent := appserver.Status{State: appserver.StateUnresponsive, PID: 1, Reason: "it gave no sign of life"}
	stopped := appserver.Status{State: appserver.StateStopped, Reason: "it was stopped"}
	for name, test := range map[string]struct {
		states []appserver.Status
		want   []string
	}{
		"starts":            {[]appserver.Status{starting, ready(1)}, []string{"ready 1"}},
		"crashes and comes": {[]appserver.Status{starting, ready(1), stopping(1), backoff, starting, ready(2)}, []string{"ready 1", "exited 1 it exited (signal: killed)", "ready 2"}},
		"comes at once":     {[]appserver.Status{starting, ready(1), stopping(1), again, ready(2)}, []string{"ready 1", "exited 1 it exited (signal: killed)", "ready 2"}},
		"hangs":             {[]appserver.Status{starting, ready(1), silent, stopping(1), again}, []string{"ready 1", "unresponsive 1 it gave no sign of life", "exited 1 it exited (signal: killed)"}},
		"hangs and goes on": {[]appserver.Status{starting, ready(1), silent, silent, ready(1)}, []string{"ready 1", "unresponsive 1 it gave no sign of life", "ready 1"}},
		"cannot start":      {[]appserver.Status{starting, backoff, starting, backoff}, []string{"exited 0 it exited (signal: killed)", "exited 0 it exited (signal: killed)"}},
		"fails to start":    {[]appserver.Status{starting, stopping(1), backoff}, []string{"exited 1 it exited (signal: killed)"}},
		"is stopped":        {[]appserver.Status{starting, ready(1), stopping(1), stopped}, []string{"ready 1", "exited 1 it was stopped, as told"}},
		"is stopped later":  {[]appserver.Status{starting, backoff, stopped}, []string{"exited 0 it exited (signal: killed)"}},
		"never started":     {[]appserver.Status{stopped}, nil},
		"is replaced":       {[]appserver.Status{starting, ready(1), ready(1), replaced, replaced}, []string{"ready 1", "ready 2"}},
	} {
		t.Run(name, func(t *testing.T) {
			var l stateTracker
			var got []string
			for _, s := range test.states {
				if e := l.update(s); e != nil {
					text := fmt.Sprint(strings.TrimPrefix(e.name, "codex.app_server_"), " ", e.data["pid"])
					if e.name != eventReady {
						text += fmt.Sprint(" ", e.data["reason"])
					}
					if e.data["stopped"] == true {
						text += ", as told"
					}
					got = append(got, text)
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
