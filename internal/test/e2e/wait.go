package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/ports"
)

// ContextWithCancel returns a context with the deadline of tests, which the test can cancel.
func ContextWithCancel(t testing.TB) (context.Context, context.CancelFunc) {
	return context.WithTimeout(Context(t), Deadline)
}

// WaitFor waits until done returns true, at most for [Deadline]. It names what was waited
// for if that does not come.
func WaitFor(t testing.TB, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(Deadline); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("waited in vain for ", what)
		}
	}
}

// FreeAddr returns an address with a free port.
func FreeAddr(t testing.TB) string {
	t.Helper()
	addr, err := ports.Free()
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

// Context returns a context with the deadline of tests.
func Context(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), Deadline)
	t.Cleanup(cancel)
	return ctx
}
