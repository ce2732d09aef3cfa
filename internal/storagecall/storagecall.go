// Package storagecall makes calls to Caddy's storage. Storage modules may ignore
// the context they are given, so a caller needs a deadline of its own.
package storagecall

import "context"

// Line lets one call to a storage at once, so that none overtakes another, also not one that its
// caller no longer waits for. It is safe for concurrent use.
type Line chan struct{}

// NewLine returns a Line without calls.
func NewLine() Line { return make(Line, 1) }

// Do waits until the line is free, then runs f on a goroutine of its own and returns its results.
// If ctx ends first, Do returns the cause; an f in progress continues, and holds the line until it
// returns.
func Do[T any](ctx context.Context, l Line, f func(context.Context) (T, error)) (value T, err error) {
	select {
	case l <- struct{}{}:
	case <-ctx.Done():
		return value, context.Cause(ctx)
	}
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		defer func() { <-l }()
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
