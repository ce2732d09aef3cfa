package codexrpc

import (
	"context"
	"time"
)

// PrepareThread starts a thread in the background. params are the JSON that
// [ThreadStartParams.AppendJSON] writes. PrepareThread reports false if too many calls are in
// flight. Otherwise it calls ready one time: with the thread, or with nil if the thread could not
// be started.
func (c *Conn) PrepareThread(params Constant, ready func(*Thread)) bool {
	select {
	case c.calls.slots <- struct{}{}:
	default:
		return false
	}
	var t *Thread
	c.background(func(until time.Time) {
		defer func() { <-c.calls.slots }()
		var err error
		// As an urgent call, it takes no second slot and is tried once.
		if t, err = c.startThread(context.Background(), call{method: methodThreadStart, params: params, until: until, urgent: true}); err != nil {
			c.logger().Debug("preparing a thread", "error", err)
		}
	}, func() { ready(t) })
	return true
}
