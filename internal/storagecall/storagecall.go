// Package storagecall makes calls to Caddy's storage. Storage modules may ignore
// the context they are given, so a caller needs a deadline of its own.
package storagecall

import (
	"context"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/claims"
)

const (
	// maxWaiting is how many calls may wait for others.
	maxWaiting = 4096
	// maxWait is how long a call waits for others if its context does not end before.
	maxWait = time.Minute
)

// Limit bounds the calls to a storage in progress, including those that their
// callers no longer wait for. It is safe for concurrent use.
type Limit struct{ calls *claims.Queue }

// NewLimit returns a Limit of maxCalls calls at once, and of perUser calls of each user; 0 lets
// one user have them all. The users that wait are served in turn.
func NewLimit(maxCalls, perUser int) *Limit {
	return &Limit{claims.NewQueue(claims.QueueOptions{Concurrent: maxCalls, PerUser: perUser, Queue: maxWaiting, Wait: maxWait})}
}

// Do waits until the limit allows a call of a user, calls start if it is not nil, then runs
// f on a goroutine of its own and returns its results. If ctx ends first, Do
// returns the cause; an f in progress continues, and counts as a call until it
// returns. Without a limit, which may be nil, nothing waits.
func Do[T any](ctx context.Context, l *Limit, user string, start func(), f func(context.Context) (T, error)) (value T, err error) {
	var slots claims.Slots
	if l != nil {
		if slots, err = l.calls.Acquire(ctx, user, 1); err != nil {
			return value, err
		}
	}
	if start != nil {
		start()
	}
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		if l != nil {
			defer slots.Release()
		}
		value, err := f(ctx)
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		return value, context.Cause(ctx)
	}
}
