package caddymodule

import (
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// A new request detects the exit.
func TestExitWatch(t *testing.T) {
	exiting := false
	w := newExitWatch(func() bool { return exiting })
	if w.hasBegun() || w.untilBegun.Err() != nil {
		t.Error("the exit begins by itself")
	}
	exiting = true
	if !w.hasBegun() || w.untilBegun.Err() == nil {
		t.Error("the exit was not detected")
	}
}

// TestExitEvent checks that the event of a configuration that stops is enough to detect the
// exit, and that it is none by itself.
func TestExitEvent(t *testing.T) {
	var exiting bool
	defer func(before *exitWatch) { exit = before }(exit)
	exit = newExitWatch(func() bool { return exiting })
	stop := func() {
		t.Helper()
		e, err := caddy.NewEvent(caddy.Context{}, "stopping", nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := new(App).Handle(t.Context(), e); err != nil {
			t.Error(err)
		}
	}
	stop()
	if exit.untilBegun.Err() != nil {
		t.Error("a reload counts as the exit")
	}
	exiting = true
	stop()
	if exit.untilBegun.Err() == nil {
		t.Error("the exit was not detected")
	}
}
