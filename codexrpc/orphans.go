package codexrpc

import (
	"context"
	"time"
)

const (
	// maxOrphans bounds the turns that are remembered to be interrupted.
	maxOrphans = 1024
	// orphanTimeout bounds the interruption of all of them. One takes a few
	// milliseconds.
	orphanTimeout = 30 * time.Second
)

// A remote app-server goes on with the turns of a connection that has ended, at
// the plan's expense, and waits for ever for the results of their tools. So
// they are interrupted: before a connection is closed, and by the next one when
// it broke.

// running returns the ids of the threads whose turns may run, also once the
// connection has ended.
func (c *Conn) running() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.orphans
	}
	return running(c.threads)
}

func running(threads map[string]*Thread) (ids []string) {
	for id, t := range threads {
		if t.running() {
			ids = append(ids, id)
		}
	}
	return ids
}

// interrupt ends the turns that run on threads, be they of this connection or
// of another. What is refused has ended.
func (c *Conn) interrupt(ctx context.Context, threads []string) {
	for _, id := range threads {
		params := struct {
			ThreadID string `json:"threadId"`
			TurnID   string `json:"turnId"` // empty: the active turn
		}{ThreadID: id}
		if err := c.call(ctx, call{method: methodTurnInterrupt, params: params}); err != nil {
			c.logger().Debug("interrupting the turn of a lost connection", "thread", id, "error", err)
		}
		if ctx.Err() != nil || c.Err() != nil {
			return
		}
	}
}

// abandon remembers the turns that a remote instance still runs after its
// connection has ended.
func (p *Process) abandon(in *instance) {
	if in.child != nil || in.conn == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	ids := in.conn.running()
	p.orphans = append(p.orphans, ids[:min(len(ids), maxOrphans-len(p.orphans))]...)
}

// adoptOrphans interrupts what was abandoned, over the connection that serves.
func (s *supervisor) adoptOrphans() {
	if s.serving == nil {
		return
	}
	s.mu.Lock()
	ids := s.orphans
	s.orphans = nil
	s.mu.Unlock()
	if len(ids) == 0 {
		return
	}
	conn := s.serving.conn
	s.background.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), orphanTimeout)
		defer cancel()
		conn.interrupt(ctx, ids)
	})
}
