package codexrpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/tidwall/gjson"
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
	result any // the answer is decoded into it, unless it is nil
	// sent, if not nil, is called once the call has been handed to the writer.
	sent func()
	// answered, if not nil, is called with the answer by the reader, before the
	// caller gets it and before any later message is read. late says that the
	// caller has left. It must not block.
	answered func(answer message, late bool)
	// urgent calls do not wait for a free slot and are not retried.
	urgent bool
}

// pendingCall is a call that waits for its answer. The connection's lock guards
// it.
type pendingCall struct {
	method   string
	answered func(answer message, late bool)
	ready    chan message // capacity 1
	slot     bool         // it holds a slot
	settled  bool         // the answer has come, or is not waited for any more
	gone     bool         // the caller has left without it
	expiry   *time.Timer  // frees the slot if no answer comes; set when gone
}

// call calls a method. It waits for a free slot, retries a refusal for
// overload, and gives up when ctx ends or after callTimeout. Errors:
// *CallError, or one that matches ErrClosed, ErrTimeout or the context's.
func (c *Conn) call(ctx context.Context, do call) error {
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, timeoutError(do.method))
	defer cancel()
	id := strconv.FormatInt(c.lastID.Add(1), 10)
	line, err := encodeCall(id, do.method, do.params)
	if err != nil {
		return fmt.Errorf("encoding %s: %w", do.method, err)
	}
	if c.maxWrite > 0 && len(line) > c.maxWrite {
		return tooLargeCall(do.method, len(line), c.maxWrite)
	}
	for attempt := 0; ; attempt++ {
		// A refused call is over, so that its id and its line can be used again.
		err := c.attempt(ctx, id, line, do)
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
func (c *Conn) attempt(ctx context.Context, id string, line []byte, do call) error {
	if !do.urgent {
		if err := pass(ctx, c, c.slots, struct{}{}); err != nil {
			return err
		}
	}
	p := &pendingCall{method: do.method, answered: do.answered, ready: make(chan message, 1), slot: !do.urgent}
	if err := c.register(id, p); err != nil {
		return err // the connection has ended and needs no slots
	}
	if err := c.send(ctx, line); err != nil {
		c.unregister(id, p)
		return err
	}
	if do.sent != nil {
		do.sent()
	}
	select {
	case answer := <-p.ready:
		return decodeAnswer(do.method, answer, do.result)
	case <-ctx.Done():
		if c.abandon(id, p, errors.Is(context.Cause(ctx), ErrTimeout)) {
			return context.Cause(ctx)
		}
		return decodeAnswer(do.method, <-p.ready, do.result)
	case <-c.done:
		select {
		case answer := <-p.ready: // it came before the end
			return decodeAnswer(do.method, answer, do.result)
		default:
			return c.Err()
		}
	}
}

// register routes the answer to id to p.
func (c *Conn) register(id string, p *pendingCall) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	c.calls[id] = p
	return nil
}

// unregister drops a call that was never sent.
func (c *Conn) unregister(id string, p *pendingCall) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p.settled = true
	c.freeSlot(p)
	delete(c.calls, id)
}

// abandon stops waiting for an answer. It reports false if the answer has just
// come. The app-server still works on the call, so the call keeps its slot, but
// not after a timeout: such a call counts as lost.
func (c *Conn) abandon(id string, p *pendingCall, timedOut bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.settled {
		return false
	}
	p.gone = true
	switch {
	case timedOut:
		c.expire(id, p)
		if c.err == nil {
			c.noteTimeout(p.method)
		}
	case c.err == nil:
		p.expiry = time.AfterFunc(callTimeout, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.expire(id, p)
		})
	}
	return true
}

// expire frees the slot of an abandoned call. The call stays registered if a late
// answer has to be acted on. The lock is held.
func (c *Conn) expire(id string, p *pendingCall) {
	if p.settled {
		return
	}
	c.freeSlot(p)
	if p.answered == nil || len(c.calls) > maxAbandoned {
		p.settled = true
		delete(c.calls, id)
	}
}

// freeSlot gives back the slot of a call. The lock is held.
func (c *Conn) freeSlot(p *pendingCall) {
	if p.slot {
		p.slot = false
		<-c.slots // never blocks: it has an element of this call's
	}
}

// handleAnswer passes an answer to its call.
func (c *Conn) handleAnswer(m message) {
	c.mu.Lock()
	p := c.calls[m.id]
	if p == nil {
		c.stats.UnknownAnswers++
		c.mu.Unlock()
		return
	}
	delete(c.calls, m.id)
	delete(c.unanswered, p.method)
	p.settled = true
	late := p.gone
	if late {
		c.stats.LateAnswers++
	}
	if p.expiry != nil {
		p.expiry.Stop()
	}
	c.mu.Unlock()
	if p.answered != nil {
		p.answered(m, late) // before the slot is free: it may add a thread, see Busy
	}
	c.mu.Lock()
	c.freeSlot(p)
	c.mu.Unlock()
	p.ready <- m // never blocks: capacity 1, and one answer for each registration
}

// decodeAnswer returns the error of an answer, or decodes its result.
func decodeAnswer(method string, answer message, result any) error {
	if answer.err.Type != gjson.Null {
		return callError(method, answer.err)
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal([]byte(answer.result.Raw), result); err != nil {
		return fmt.Errorf("reading the answer to %s: %w", method, err)
	}
	return nil
}
