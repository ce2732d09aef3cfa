package codexrpc

import (
	"context"
	"fmt"
	"time"
)

// PrepareThread starts a thread like StartThread and waits for nothing. params are as
// [ThreadStartParams.AppendJSON] writes them. While other calls are in flight it is written
// with the next one. It reports false if too many are. Otherwise ready is called once with the
// thread, or with nil if it could not be started. It must not block.
func (c *Conn) PrepareThread(params Constant, ready func(*Thread)) bool {
	select {
	case c.slots <- struct{}{}:
	default:
		return false
	}
	t := &Thread{conn: c, prepared: ready}
	t.queue.init(&c.wakes)
	over := (*preparing)(t)
	do := call{method: methodThreadStart, params: params, by: (*opening)(t), over: over}
	id, p, line, err := c.begin(&do, time.Now().Add(callTimeout))
	switch {
	case err != nil:
		over.onOutcome(err)
	case line != nil:
		c.background(func(ctx context.Context) {
			if err := c.enqueue(ctx, line); err != nil && c.unregister(id, p) {
				over.onOutcome(err)
			}
		}, nil)
	}
	return true
}

// preparing is a thread that is being prepared.
type preparing Thread

// onOutcome passes the thread on.
func (p *preparing) onOutcome(err error) {
	t, ready := (*Thread)(p), p.prepared
	t.prepared = nil
	if err == nil && !t.usable {
		err = fmt.Errorf("%s was answered without a new thread that can be used", methodThreadStart)
	}
	if err != nil {
		t.conn.logger().Debug("preparing a thread", "error", err)
		t = nil
	}
	ready(t)
}
