package codexrpc

import (
	"context"
	"time"
)

// PrepareThread starts a thread in the background, with params from [ThreadStartParams.AppendJSON].
// It returns false, and starts nothing, if too many calls are in flight. Otherwise ready is called
// after the start, with the thread, or nil if the start has failed.
func (c *Conn) PrepareThread(params Constant, ready func(*Thread)) bool {
	select {
	case c.calls.slots <- struct{}{}:
	default:
		return false
	}
	var t *Thread
	c.background(func(deadline time.Time) {
		defer func() { <-c.calls.slots }()
		var err error
		// The call is urgent, so that it takes no second slot and is not retried.
		if t, err = c.startThread(context.Background(), call{method: methodThreadStart, params: params, deadline: deadline, urgent: true}); err != nil {
			c.opts.Logger().Debug("preparing a thread", "error", err)
		}
	}, func() { ready(t) })
	return true
}
