package appserver

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

// abandon remembers the turns that a remote instance still runs after its
// connection has ended.
func (p *Process) abandon(in *instance) {
	if in.child != nil || in.conn == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	ids := in.conn.Unfinished()
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
		conn.InterruptAll(ctx, ids)
	})
}
