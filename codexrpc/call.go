package codexrpc

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

const (
	// maxInFlight bounds the calls that wait for an answer; urgent calls do not count. If a hundred
	// or more calls wait, the app-server silently loses requests. With 64 calls it never lost one.
	maxInFlight = 64
	// callTimeout bounds a call without a deadline, including the wait for a slot and all retries.
	callTimeout = 30 * time.Second
)

// overloadRetries is how often a call is tried again if the app-server is overloaded, first after
// about overloadPause, then each time after about twice as long.
const (
	overloadRetries = 5
	overloadPause   = 20 * time.Millisecond
)

type call struct {
	method   string
	params   any
	result   any       // pointer to where the answer is decoded; nil: the answer is not decoded
	deadline time.Time // when the call is given up; zero: callTimeout after its start
	tap      Tap       // gets the answer; nil: nothing does
	urgent   bool      // the call needs no slot (see callTable) and is not retried
	// onSent, if not nil, is called when the goroutine that writes to the connection has received the call.
	onSent func()
	// onAnswer, if not nil, is called when the answer arrives, even with an error. The reading goroutine
	// calls it before it reads on, so it must not block; answer is valid until it returns. If late is
	// false, the call returns only after onAnswer. If late is true, the caller no longer waits.
	onAnswer func(answer message, late bool)
}

// pendingCall is a call that waits for its answer. The lock of its callTable guards it.
type pendingCall struct {
	call                  // a copy of the call, without its params
	outcome    chan error // capacity 1: gets nil when the answer has come, or an error when the wait ends without an answer
	resultJSON string     // the result in the answer; empty if call.result is nil
	refusal    *CallError // the error in the answer; nil: the answer has no error
	expires    time.Time  // when the table stops waiting for the answer; zero: the table has stopped
	hasSlot    bool       // the call occupies a slot
	abandoned  bool       // the caller has left without the answer
}

// Call calls a method for which this package has no function, and decodes the answer into an R.
// [Conn.Initialize] must come first. Call waits while too many calls are in flight, tries again if
// the app-server is overloaded, and gives up after 30 seconds. An error is a [*CallError], matches
// [ErrClosed] or [ErrTimeout], is the cause of the end of ctx, or says that params cannot be
// encoded or the answer cannot be decoded.
func Call[R any](ctx context.Context, c *Conn, method string, params any) (R, error) {
	var result R
	err := c.call(ctx, call{method: method, params: params, result: &result})
	return result, err
}

// call does the work of [Call]. It gives up at spec.deadline, too.
func (c *Conn) call(ctx context.Context, spec call) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if spec.deadline.IsZero() {
		spec.deadline = time.Now().Add(callTimeout)
	}
	for attempt := 0; ; attempt++ {
		err := c.attempt(ctx, &spec)
		if attempt >= overloadRetries || !errors.Is(err, ErrOverloaded) || spec.urgent {
			return err
		}
		pause := overloadPause << attempt
		select {
		case <-time.After(pause/2 + rand.N(pause)):
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-c.done:
			return c.Err()
		}
	}
}

var errAnsweredEarly = errors.New("the app-server answers a call before it was asked")

// attempt makes a call one time: it takes a slot, sends the call and waits for the answer.
func (c *Conn) attempt(ctx context.Context, spec *call) error {
	if !spec.urgent {
		if err := c.takeSlot(ctx, spec); err != nil {
			return err
		}
	}
	spec.tap = callTapOf(ctx, spec.method)
	id, p, line, err := c.prepareCall(spec)
	if err != nil {
		return err
	}
	if spec.tap != nil {
		spec.tap.Line(true, line)
	}
	select { // writeLoop receives the line when it has written the previous one
	case c.out.calls <- line:
	case err = <-p.outcome: // the call has timed out, the connection has ended, or an answer came too early
		c.calls.unregister(id, p)
		return cmp.Or(err, errAnsweredEarly)
	case <-ctx.Done():
		c.calls.unregister(id, p)
		return context.Cause(ctx)
	}
	if spec.onSent != nil {
		spec.onSent()
	}
	select {
	case err = <-p.outcome:
	case <-ctx.Done():
		if c.calls.abandon(id, p, errors.Is(context.Cause(ctx), ErrTimeout)) {
			return context.Cause(ctx)
		}
		err = <-p.outcome // the wait has just ended in another way
	}
	if err == nil {
		err = p.decodeResult()
	}
	return err
}

// prepareCall encodes and registers a call. The call must have its slot: calls that wait for a slot are
// not encoded, so they need little memory.
func (c *Conn) prepareCall(spec *call) (id int64, p *pendingCall, line []byte, err error) {
	id, p = c.calls.lastID.Add(1), &pendingCall{call: *spec, outcome: make(chan error, 1), expires: spec.deadline, hasSlot: !spec.urgent}
	p.params = nil
	line, err = encodeCall(id, spec.method, spec.params)
	if err != nil {
		c.calls.freeSlot(p)
		return id, p, nil, fmt.Errorf("encoding %s: %w", spec.method, err)
	}
	if err := c.calls.register(id, p); err != nil {
		return id, p, nil, err // the connection has ended, so the slot need not be freed
	}
	return id, p, line, nil
}

// takeSlot occupies a slot, and waits for a free one at most until ctx ends or spec.deadline.
func (c *Conn) takeSlot(ctx context.Context, spec *call) error {
	select {
	case c.calls.slots <- struct{}{}:
		return nil
	default:
	}
	ctx, cancel := context.WithDeadlineCause(ctx, spec.deadline, timeoutError(spec.method))
	defer cancel()
	return sendTo(ctx, c, c.calls.slots, struct{}{})
}

func (c *Conn) handleAnswer(m message, line []byte) {
	p, late := c.calls.removeAnswered(m.id)
	if p == nil {
		c.logUnused("answer", "")
		return
	}
	if p.tap != nil {
		p.tap.Line(false, line)
	}
	if p.onAnswer != nil {
		p.onAnswer(m, late) // before freeSlot, so that Busy stays true if onAnswer adds a thread
	}
	p.storeAnswer(m)
	c.calls.freeSlot(p)
	if !late {
		p.outcome <- nil // never blocks: p.outcome gets only this element
	}
}

func (p *pendingCall) storeAnswer(answer message) {
	switch {
	case answer.err != "" && answer.err != "null":
		p.refusal = callError(p.method, answer.err)
	case p.result != nil:
		p.resultJSON = strings.Clone(answer.result)
	}
}

func (p *pendingCall) decodeResult() error {
	if p.refusal != nil {
		return p.refusal
	}
	if p.result == nil {
		return nil
	}
	if err := json.Unmarshal([]byte(p.resultJSON), p.result); err != nil {
		return fmt.Errorf("reading the answer to %s: %w", p.method, err)
	}
	return nil
}
