package codexrpc

import (
	"context"
	"fmt"
	"time"
)

// MaxUnanswered is how many calls of a method have to time out in a row before
// [Probe].Unanswered names it.
const MaxUnanswered = 2

// Heartbeat says how often an app-server is probed and when it is given up.
type Heartbeat struct {
	Every     time.Duration // the pause between two probes
	Wait      time.Duration // how long the answer to one may take
	MaxMissed int           // how many in a row may bring nothing
}

// Probe is the result of one probe.
type Probe struct {
	Diagnostics Diagnostics
	Err         error  // the app-server's refusal, or why there is no answer
	Missed      int    // probes in a row, with this one, that brought nothing
	Unanswered  string // a method whose calls go unanswered; empty: there is none
}

// Monitor probes the app-server at once and then until the connection ends, in the
// background, and reports each result. It ends the connection with [ErrUnresponsive] when too
// many probes in a row have brought nothing. A connection that something moves
// on is alive: an answer can wait behind many megabytes of other messages.
func (c *Conn) Monitor(h Heartbeat, report func(Probe)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.closers.Add(1)
	go func() {
		defer c.closers.Done()
		c.probeUntilEnd(h, report)
	}()
}

func (c *Conn) probeUntilEnd(h Heartbeat, report func(Probe)) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for missed := 0; ; {
		select {
		case <-pause.C:
		case <-c.doubts:
		case <-c.done:
			return
		}
		before := c.progress()
		got, answered, err := c.probe(h.Wait)
		if c.Err() != nil {
			return
		}
		if missed++; answered || c.progress() != before {
			missed = 0
		}
		if missed == h.MaxMissed {
			c.Fail(fmt.Errorf("%w: it was silent for %s", ErrUnresponsive, time.Duration(missed)*h.Wait))
			return
		}
		report(Probe{Diagnostics: got, Err: err, Missed: missed, Unanswered: c.unansweredMethod()})
		if missed > 0 {
			pause.Reset(0)
		} else {
			pause.Reset(h.Every)
		}
	}
}

// probe asks the app-server once whether it lives. It takes no place of the calls
// in flight, which may all be stuck. A refusal is an answer: not every release knows
// server/diagnostics.
func (c *Conn) probe(wait time.Duration) (got Diagnostics, answered bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	got, err = c.diagnostics(ctx, call{urgent: true})
	return got, err == nil || ctx.Err() == nil, err
}

// progress grows with everything that moves on the connection by the doing of the
// app-server. It stays 0 on a transport that does not count.
func (c *Conn) progress() uint64 {
	if t, ok := c.transport.(progressing); ok {
		return t.Progress()
	}
	return 0
}

// doubt notes that a call of a method was not answered in time, and has the
// app-server probed at once. The lock is held.
func (c *Conn) doubt(method string) {
	c.unanswered[method]++
	select {
	case c.doubts <- struct{}{}:
	default: // it is about to be probed
	}
}

// unansweredMethod returns a method of which the last calls all went unanswered, or
// nothing.
func (c *Conn) unansweredMethod() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for method, n := range c.unanswered {
		if n >= MaxUnanswered {
			return method
		}
	}
	return ""
}
