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
