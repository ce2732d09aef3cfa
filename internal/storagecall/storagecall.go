// Package storagecall makes calls to Caddy's storage. Storage modules may ignore
// the context they are given, so a caller needs a deadline of its own.
package storagecall

import "context"

// Limit bounds the calls to a storage in progress, including those that their
// callers no longer wait for. It is safe for concurrent use.
type Limit struct{ calls chan struct{} }

// NewLimit returns a Limit of maxCalls calls at once.
func NewLimit(maxCalls int) *Limit { return &Limit{make(chan struct{}, maxCalls)} }

// Do waits until the limit allows a call, calls start if it is not nil, then runs
// f on a goroutine of its own and returns its results. If ctx ends first, Do
// returns the cause; an f in progress continues, and counts as a call until it
// returns.
func Do[T any](ctx context.Context, l *Limit, start func(), f func(context.Context) (T, error)) (value T, err error) {
	select {
	case l.calls <- struct{}{}:
	case <-ctx.Done():
		return value, context.Cause(ctx)
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
		defer func() { <-l.calls }()
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
