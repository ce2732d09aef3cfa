package codexrpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// maxAbandoned bounds the abandoned calls that are kept because a late answer
// still has to be acted on.
const maxAbandoned = 1024

// overloadRetries is how often a call that was refused as overloaded is tried
// again, with pauses that double from overloadPause.
const (
	overloadRetries = 5
	overloadPause   = 20 * time.Millisecond
)

// call is one method call and its options.
type call struct {
	method string
	params any
	result any    // the answer is decoded into it, unless it is nil
	by     caller // nil: nothing has to be done beside
	// urgent calls do not wait for a free slot and are not retried.
	urgent bool
}

// caller acts on the way of a call.
type caller interface {
	// onSent is called once the call has been written or handed to the writer.
	onSent()
	// onAnswer is called with the answer by the reader, before the call returns and before
	// any later message is read. The answer is valid during the call. late says that nobody
	// waits for the call any more. It must not block.
	onAnswer(answer message, late bool)
}

// pendingCall is a call that waits for its answer. The connection's lock guards
// it.
type pendingCall struct {
	call               // without params, once they are encoded
	ready   chan error // capacity 1: nil if the answer has come, else why none will
	answer  string     // its result as JSON, if that is wanted
	refused *CallError // the error of the answer
	expires time.Time  // when it is not waited for any longer; zero: that has passed
	slot    bool       // it holds a slot
	gone    bool       // the caller has left without it
}

// call calls a method. It waits for a free slot, retries a refusal for
// overload, and gives up when ctx ends or after callTimeout. Errors:
// *CallError, or one that matches ErrClosed, ErrTimeout or the context's.
func (c *Conn) call(ctx context.Context, do call) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	deadline := time.Now().Add(callTimeout)
	for attempt := 0; ; attempt++ {
		err := c.attempt(ctx, deadline, &do)
		if attempt >= overloadRetries || !errors.Is(err, ErrOverloaded) || do.urgent {
			return err
		}
		pause := overloadPause << attempt
		timer := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-c.done:
			timer.Stop()
			return c.Err()
		}
	}
}

// attempt sends a call once and waits for its answer.
func (c *Conn) attempt(ctx context.Context, deadline time.Time, do *call) error {
	if !do.urgent {
		if err := c.takeSlot(ctx, deadline, do.method); err != nil {
			return err
		}
	}
	id, p, line, err := c.begin(do, deadline)
	if err != nil {
		return err
	}
	if err := c.sendUntil(ctx, deadline, line, do.method); err != nil {
		c.unregister(id, p)
		return err
	}
	if do.by != nil {
		do.by.onSent()
	}
	select {
	case err = <-p.ready:
	case <-ctx.Done():
		if c.abandon(id, p, errors.Is(context.Cause(ctx), ErrTimeout)) {
			return context.Cause(ctx)
		}
		err = <-p.ready
	}
	if err == nil {
		err = p.read()
		c.reuse(p)
	}
	return err
}

// begin registers a call that has its slot and returns its line. That is not made before, so that
// calls which wait for a slot hold none, and not kept for another attempt.
func (c *Conn) begin(do *call, deadline time.Time) (id int64, p *pendingCall, line []byte, err error) {
	id, p = c.lastID.Add(1), c.pending()
	p.call, p.params, p.expires, p.slot = *do, nil, deadline, !do.urgent
	line, err = encodeCall(id, do.method, do.params)
	switch {
	case err != nil:
		err = fmt.Errorf("encoding %s: %w", do.method, err)
	case c.maxWrite > 0 && len(line) > c.maxWrite:
		err = tooLargeCall(do.method, len(line), c.maxWrite)
	}
	if err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.freeSlot(p)
		return id, p, nil, err
	}
	if err := c.register(id, p); err != nil {
		return id, p, nil, err // the connection has ended and needs no slots
	}
	return id, p, line, nil
}

// pending returns a call that is not used.
func (c *Conn) pending() *pendingCall {
	if p, ok := c.spare.Get().(*pendingCall); ok {
		return p
	}
	return &pendingCall{ready: make(chan error, 1)}
}

// reuse lets a call be used again that has been answered.
func (c *Conn) reuse(p *pendingCall) {
	*p = pendingCall{ready: p.ready}
	c.spare.Put(p)
}

// takeSlot waits for a free slot.
func (c *Conn) takeSlot(ctx context.Context, deadline time.Time, method string) error {
	select {
	case c.slots <- struct{}{}:
		return nil
	default:
	}
	ctx, cancel := context.WithDeadlineCause(ctx, deadline, timeoutError(method))
	defer cancel()
	return pass(ctx, c, c.slots, struct{}{})
}

// sendUntil hands a call to the writer.
func (c *Conn) sendUntil(ctx context.Context, deadline time.Time, line []byte, method string) error {
	ctx, cancel := context.WithDeadlineCause(ctx, deadline, timeoutError(method))
	defer cancel()
	return c.send(ctx, line)
}

// register routes the answer to id to p.
func (c *Conn) register(id int64, p *pendingCall) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	c.calls[id] = p
	c.watchCalls(p.expires)
	return nil
}

// unregister drops a call that was never sent. It reports false if that is over already.
func (c *Conn) unregister(id int64, p *pendingCall) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls[id] != p {
		return false
	}
	c.freeSlot(p)
	delete(c.calls, id)
	return !p.gone
}

// abandon stops waiting for an answer. It reports false if the answer has just
// come. The app-server still works on the call, so the call keeps its slot, but
// not after a timeout: such a call counts as lost.
func (c *Conn) abandon(id int64, p *pendingCall, timedOut bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls[id] != p || p.gone {
		return false
	}
	p.gone = true
	if timedOut {
		c.noteTimeout(p.method)
		c.giveUp(id, p)
	} else {
		p.expires = time.Now().Add(callTimeout)
		c.watchCalls(p.expires)
	}
	return true
}

// watchCalls lets expireCalls run at a time or earlier. All calls share one timer: to set
// one for each costs as much as the call. The lock is held.
func (c *Conn) watchCalls(at time.Time) {
	switch {
	case c.watch == nil:
		c.watch = time.AfterFunc(time.Until(at), c.expireCalls)
	case c.watchAt.IsZero() || at.Before(c.watchAt):
		c.watch.Reset(time.Until(at))
	default:
		return
	}
	c.watchAt = at
}

// expireCalls ends the wait for the calls whose time has passed.
func (c *Conn) expireCalls() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, next := time.Now(), time.Time{}
	for id, p := range c.calls {
		switch {
		case p.expires.IsZero():
		case !now.Before(p.expires):
			c.expire(id, p)
		case next.IsZero() || p.expires.Before(next):
			next = p.expires
		}
	}
	c.watchAt = time.Time{}
	if !next.IsZero() {
		c.watchCalls(next)
	}
}

// expire ends the wait for a call that has timed out. The lock is held.
func (c *Conn) expire(id int64, p *pendingCall) {
	if !p.gone {
		p.gone = true
		c.noteTimeout(p.method)
		p.ready <- timeoutError(p.method) // never blocks: it gets one element
	}
	c.giveUp(id, p)
}

// giveUp frees the slot of a call that nobody waits for. The call stays registered if a
// late answer has to be acted on. The lock is held.
func (c *Conn) giveUp(id int64, p *pendingCall) {
	p.expires = time.Time{}
	c.freeSlot(p)
	if p.by == nil || len(c.calls) > maxAbandoned {
		delete(c.calls, id)
	}
}

// freeSlot gives back the slot of a call. The lock is held, or the call is not registered any
// more.
func (c *Conn) freeSlot(p *pendingCall) {
	if p.slot {
		p.slot = false
		<-c.slots // never blocks: it has an element of this call's
	}
}

// failCalls ends the wait for all calls, since the connection has ended. The lock is held.
func (c *Conn) failCalls() {
	if c.watch != nil {
		c.watch.Stop()
	}
	for _, p := range c.calls {
		if !p.gone {
			p.ready <- c.err // never blocks: it gets one element
		}
	}
	c.calls = nil // a nil map reads as empty; nothing is added after the end
}

// handleAnswer passes an answer to its call.
func (c *Conn) handleAnswer(m message) {
	id, err := strconv.ParseInt(m.id, 10, 64)
	c.mu.Lock()
	p := c.calls[id]
	if p == nil || err != nil {
		c.stats.UnknownAnswers++
		c.mu.Unlock()
		return
	}
	delete(c.calls, id)
	delete(c.unanswered, p.method)
	late := p.gone
	if late {
		c.stats.LateAnswers++
	}
	c.mu.Unlock()
	if p.by != nil {
		p.by.onAnswer(m, late) // before the slot is free: it may add a thread, see Busy
	}
	p.keep(m)
	c.freeSlot(p)
	if !late {
		p.ready <- nil // never blocks: it gets one element
	}
}

// keep keeps what the caller needs of an answer.
func (p *pendingCall) keep(answer message) {
	switch {
	case answer.refused():
		p.refused = callError(p.method, answer.err)
	case p.result != nil:
		p.answer = strings.Clone(answer.result)
	}
}

// read returns the error of the answer, or decodes its result if that is wanted.
func (p *pendingCall) read() error {
	if p.refused != nil {
		return p.refused
	}
	if p.result == nil {
		return nil
	}
	if err := json.Unmarshal([]byte(p.answer), p.result); err != nil {
		return fmt.Errorf("reading the answer to %s: %w", p.method, err)
	}
	return nil
}
