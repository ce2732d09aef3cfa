package codexrpc

import (
	"context"
	"iter"
)

// Call calls a method that has no function of its own here, and decodes its answer into an R. It
// may be called once the connection is initialized. It waits while too many calls are in
// flight, repeats a call that is refused for overload, and gives up after some time, as all
// calls do. Errors: a [*CallError], or one that matches [ErrClosed], [ErrTimeout] or the cause of
// the end of ctx.
func Call[R any](ctx context.Context, c *Conn, method string, params any) (R, error) {
	var result R
	err := c.call(ctx, call{method: method, params: params, result: &result})
	return result, err
}

// Notify sends a notification, which has no answer. params may be nil. The error is why it could
// not be handed over: one that matches [ErrClosed], or the cause of the end of ctx.
func (c *Conn) Notify(ctx context.Context, method string, params any) error {
	message, err := encode(outgoing{Method: method, Params: params})
	if err != nil {
		return err
	}
	return c.send(ctx, message)
}

// Events returns the events of the turn up to [EventTurnCompleted], and waits for each. If the
// turn has no such end, the last element has an error, and no event: one that matches
// [ErrClosed] or [ErrTooSlow], or the cause of the end of ctx. Only one goroutine may use it,
// and neither [Thread.Ready] nor [Thread.Recv] beside it.
func (t *Thread) Events(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for {
			events, err := t.Recv()
			for _, e := range events {
				if !yield(e, nil) || e.Kind == EventTurnCompleted {
					return
				}
			}
			if err == nil && len(events) == 0 {
				select {
				case <-t.Ready():
				case <-ctx.Done():
					err = context.Cause(ctx)
				}
			}
			if err != nil {
				yield(Event{}, err)
				return
			}
		}
	}
}
