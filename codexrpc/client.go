package codexrpc

import (
	"context"
	"iter"
)

// Call calls a method for which this package has no function, and decodes the answer into an R.
// [Conn.Initialize] must come first. Call waits while too many calls are in flight, tries again if
// the app-server is overloaded, and gives up after 30 seconds. An error is a [*CallError], matches
// [ErrClosed] or [ErrTimeout], is the cause of the end of ctx, or says that params cannot be
// encoded or the answer cannot be decoded.
func Call[R any](ctx context.Context, c *Conn, method string, params any) (R, error) {
	var result R
	err := c.call(ctx, call{method: method, params: params, result: &result})
	return result, err
}

// Notify sends a notification, which has no answer. params may be nil. An error matches
// [ErrClosed], is the cause of the end of ctx, or says that params cannot be encoded.
func (c *Conn) Notify(ctx context.Context, method string, params any) error {
	message, err := encode(outgoing{Method: method, Params: params})
	if err != nil {
		return err
	}
	return c.send(ctx, message)
}

// Events returns the events of the turn. It waits for each event, and ends after
// [EventTurnCompleted], which a failed turn has, too. If [Thread.Recv] fails before that, the last
// element has its error instead of an event. If ctx ends before that, the last element has the
// cause. Only one goroutine may read a turn: with Events, or with [Thread.Ready] and [Thread.Recv].
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
