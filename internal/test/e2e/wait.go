package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/ports"
)

// ContextWithCancel returns a context with the deadline of tests, which the test can cancel.
func ContextWithCancel(t testing.TB) (context.Context, context.CancelFunc) {
	return context.WithTimeout(Context(t), Deadline)
}

// WaitFor waits until done returns true, at most for [Deadline]. It names what was waited for if
// that does not come. The longer it takes, the less often it asks, since done may be a whole turn.
func WaitFor(t testing.TB, what string, done func() bool) {
	t.Helper()
	for begun := time.Now(); !done(); {
		waited := time.Since(begun)
		if waited > Deadline {
			t.Fatal("waited in vain for ", what)
		}
		time.Sleep(min(max(waited/8, 10*time.Millisecond), 100*time.Millisecond))
	}
}

// Receive receives what a goroutine sends, which it does not if it ends with a failure. It waits
// at most for [Deadline], and names what was waited for if that does not come.
func Receive[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	select {
	case got := <-from:
		return got
	case <-time.After(Deadline):
		t.Fatal("waited in vain for ", what)
		panic("unreachable")
	}
}

// FreeAddr returns an address with a free port.
func FreeAddr(t testing.TB) string {
	t.Helper()
	addr, err := ports.Free()
	must.OK(t, err)
	return addr
}

// Context returns a context with the deadline of tests.
func Context(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), Deadline)
	t.Cleanup(cancel)
	return ctx
}
