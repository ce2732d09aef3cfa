package storagecall

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestDo checks that a call which ignores its context keeps its place but not
// its caller.
func TestDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		line, hang := NewLine(), make(chan struct{})
		var started atomic.Int64
		late := errors.New("too late")
		call := func(f func(context.Context) (int, error)) (int, error) {
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, late)
			defer cancel()
			return Do(ctx, line, f)
		}
		for range 5 {
			if _, err := call(func(context.Context) (int, error) { started.Add(1); <-hang; return 0, nil }); err != late {
				t.Error(err)
			}
		}
		if n := started.Load(); n != 1 {
			t.Errorf("%d calls at once", n)
		}
		close(hang)
		if v, err := call(func(context.Context) (int, error) { return 7, nil }); v != 7 || err != nil {
			t.Error(v, err)
		}
		failed := errors.New("failed")
		if _, err := call(func(context.Context) (int, error) { return 0, failed }); err != failed {
			t.Error(err)
		}
	})
}
