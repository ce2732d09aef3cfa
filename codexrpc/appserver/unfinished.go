package appserver

import (
	"context"
	"time"
)

const (
	// maxUnfinished bounds the remembered threads.
	maxUnfinished = 1024
	// interruptTimeout bounds the interruption of all of them. One takes a few
	// milliseconds.
	interruptTimeout = 30 * time.Second
)

// rememberUnfinished remembers the threads whose turns a remote app-server goes on
// with after the connection was lost, at the plan's expense and, if they wait for
// the result of a tool, for ever.
func (p *Process) rememberUnfinished(in *instance) {
	if in.child != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	ids := in.conn.Unfinished()
	p.unfinished = append(p.unfinished, ids[:min(len(ids), maxUnfinished-len(p.unfinished))]...)
}

// interruptUnfinished interrupts the remembered turns over the connection of the
// serving instance.
func (s *supervisor) interruptUnfinished() {
	if s.serving == nil {
		return
	}
	s.mu.Lock()
	ids := s.unfinished
	s.unfinished = nil
	s.mu.Unlock()
	if len(ids) == 0 {
		return
	}
	conn := s.serving.conn
	s.background.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), interruptTimeout)
		defer cancel()
		conn.InterruptAll(ctx, ids)
	})
}
