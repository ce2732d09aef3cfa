package codexrpc

import (
	"context"
	"fmt"
	"time"
)

const (
	// beatEvery is the pause between two probes. One costs the app-server a tenth
	// of a millisecond.
	beatEvery = 2 * time.Second
	// beatWait is how long the answer to a probe may take before the app-server
	// counts as unresponsive.
	beatWait = 4 * time.Second
	// maxMissed is how many probes in a row may go without an answer and without
	// any other news. Then the app-server is given up. An app-server on this machine
	// can be slow, but the network to a remote one can be gone for a while.
	maxMissed       = 3
	maxMissedRemote = 6
	// maxUnanswered is how many calls of a method may time out in a row. Then the
	// app-server is replaced, although it answers probes.
	maxUnanswered = 2
)

// heartbeat says how often an app-server is probed and when it is given up.
type heartbeat struct {
	every, wait time.Duration
}

// vitals is what a probe has found.
type vitals struct {
	of     *instance
	got    Diagnostics
	err    error  // the app-server's refusal, or why there is no answer
	missed int    // probes in a row, with this one, that brought nothing
	deaf   string // a method whose calls go unanswered; empty: there is none
}

// beat probes the app-server until the connection ends, in the background, and
// reports each result. It ends the connection with [ErrUnresponsive] when too
// many probes in a row have brought nothing. A connection that something moves
// on is alive: an answer can wait behind many megabytes of other messages.
func (c *Conn) beat(h heartbeat, report func(vitals)) {
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

func (c *Conn) probeUntilEnd(h heartbeat, report func(vitals)) {
	most := maxMissed
	if c.remote {
		most = maxMissedRemote
	}
	pause := time.NewTimer(h.every)
	defer pause.Stop()
	for missed := 0; ; {
		select {
		case <-pause.C:
		case <-c.doubts:
		case <-c.done:
			return
		}
		before := c.progress()
		got, answered, err := c.probe(h.wait)
		if c.Err() != nil {
			return
		}
		if missed++; answered || c.progress() != before {
			missed = 0
		}
		if missed == most {
			c.fail(fmt.Errorf("%w: it was silent for %s", ErrUnresponsive, time.Duration(most)*h.wait))
			return
		}
		report(vitals{got: got, err: err, missed: missed, deaf: c.deafTo()})
		if missed > 0 {
			pause.Reset(0)
		} else {
			pause.Reset(h.every)
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

// deafTo returns a method of which the last calls all went unanswered, or
// nothing.
func (c *Conn) deafTo() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for method, n := range c.unanswered {
		if n >= maxUnanswered {
			return method
		}
	}
	return ""
}

// watch begins the heartbeat of an instance whose handshake is over.
func (p *Process) watch(in *instance) {
	if in.err != nil {
		return
	}
	in.conn.beat(p.heartbeat, func(found vitals) {
		found.of = in
		select {
		case p.beats <- found:
		case <-in.conn.Done():
		}
	})
}

// examine acts on what a probe has found.
func (s *supervisor) examine(found vitals) {
	in := found.of
	if in != s.serving {
		return
	}
	s.suspect(in, found)
	s.weigh(in, found)
	if found.deaf != "" {
		s.replaceDeaf(in, found.deaf)
	}
}

// suspect keeps new turns from an instance that is silent, until it answers. Its
// own turns wait with it.
func (s *supervisor) suspect(in *instance, found vitals) {
	unresponsive := s.Status().State == StateUnresponsive
	switch {
	case found.missed > 0 && !unresponsive:
		s.log().Warn("the codex app-server does not answer", "pid", in.pid(), "address", s.address, "threads", in.conn.Threads())
		s.become(Status{
			State: StateUnresponsive, PID: in.pid(), Version: in.version,
			Reason: fmt.Sprintf("it has been silent for %s", s.heartbeat.wait),
			Remedy: "it is silent, and is replaced if it stays so",
		})
	case found.missed == 0 && unresponsive:
		s.log().Info("the codex app-server answers again", "pid", in.pid(), "address", s.address)
		s.ready(in)
	}
}

// replaceDeaf replaces an instance that is alive but leaves calls unanswered. Turns
// on it that go on are not touched.
func (s *supervisor) replaceDeaf(in *instance, method string) {
	now := time.Now()
	if !in.deaf {
		in.deaf = true
		s.floor.lasted(now.Sub(in.since))
	}
	if s.next != nil || now.Before(s.replaced) {
		return
	}
	s.replaced = now.Add(s.floor.next())
	why := fmt.Sprintf("it left %d calls of %s in a row unanswered", maxUnanswered, method)
	if err := s.replace(why); err != nil {
		s.log().Error("replacing the codex app-server", "reason", why, "error", err)
	}
}
