package codexrpc

import (
	"context"
	"errors"
	"time"
)

const (
	// closeTimeout bounds work in the background, and the unloading of a thread after its turn.
	closeTimeout = 20 * time.Second
	// interruptTimeout is how long an interruption may wait for its answer.
	interruptTimeout = 15 * time.Second
	// finishTimeout is how long the unloading waits for the end of the turn. It is long, since an
	// interruption does not end the decoding of images.
	finishTimeout = 100 * time.Second
	// refusedGrace is how long to wait for turn/completed if the app-server has refused to interrupt
	// the turn, usually because the turn has just ended by itself.
	refusedGrace = time.Second
)

// Close ends the thread in the background: it interrupts an unfinished turn, waits for its end, answers
// parked tool calls and unloads the thread. After that, even after a failure, it calls released unless that
// is nil; released may close the connection. Close must not be called twice.
func (t *Thread) Close(released func()) { t.conn.background(t.unload, released) }

// background runs f in a goroutine, for which Conn.Close waits. The deadline of f is closeTimeout
// from now. After f, background calls onDone if it is not nil. If the connection has ended,
// background runs both without a goroutine, since every call that f makes fails immediately.
func (c *Conn) background(f func(deadline time.Time), onDone func()) {
	deadline := time.Now().Add(closeTimeout)
	c.mu.Lock()
	open := c.err == nil
	if open {
		c.tasks.Add(1)
	}
	c.mu.Unlock()
	if !open {
		f(deadline)
		if onDone != nil {
			onDone()
		}
		return
	}
	go func() {
		if onDone != nil {
			// Deferred first, so that onDone runs after tasks.Done: onDone may call Conn.Close,
			// which waits for tasks.
			defer onDone()
		}
		defer c.tasks.Done()
		f(deadline)
	}()
}

// unload does the background work of Close. After a wait for the turn, the deadline begins anew.
func (t *Thread) unload(deadline time.Time) {
	t.queue.drop(errClosedThread)
	if t.isRunning() {
		t.interruptAndWait()
		deadline = time.Now().Add(closeTimeout)
	}
	t.answerParked(deadline)
	t.unsubscribe(deadline)
	t.conn.mu.Lock()
	defer t.conn.mu.Unlock()
	if t.conn.threads[t.id] == t {
		delete(t.conn.threads, t.id)
	}
}

// RefuseCalls answers the turn's parked tool calls with a failure, in the background, and makes the thread
// refuse further calls. It is for a model response that breaks off after tool calls, since Codex reports
// that only when the calls are answered. After the turn, the caller must close the thread.
func (t *Thread) RefuseCalls() { t.conn.background(t.answerParked, nil) }

func (t *Thread) answerParked(deadline time.Time) {
	parked := t.stopParking()
	if len(parked) == 0 {
		return
	}
	ctx, cancel := context.WithDeadlineCause(context.Background(), deadline, ErrTimeout)
	defer cancel()
	for _, call := range parked {
		message, err := encode(outgoing{ID: call.requestID, Result: toolCallFailed})
		if err == nil {
			err = t.conn.send(ctx, message)
		}
		if err != nil {
			t.conn.opts.Logger().Debug("answering a tool call", "thread", t.id, "error", err)
			return
		}
	}
}

var errClosedThread = errors.New("the thread was closed")

// interruptAndWait interrupts the turn and waits for its end, at most for finishTimeout.
func (t *Thread) interruptAndWait() {
	ctx, cancel := context.WithTimeout(context.Background(), finishTimeout)
	defer cancel()
	answerCtx, cancelAnswer := context.WithTimeoutCause(ctx, interruptTimeout, ErrTimeout)
	defer cancelAnswer()
	if err := t.Interrupt(answerCtx); err != nil {
		t.conn.opts.Logger().Debug("interrupting a turn", "thread", t.id, "error", err)
		if _, refused := errors.AsType[*CallError](err); refused {
			var stop context.CancelFunc
			ctx, stop = context.WithTimeout(ctx, refusedGrace)
			defer stop()
		}
	}
	select {
	case <-t.Ended():
	case <-t.conn.done:
	case <-ctx.Done():
	}
}

func (t *Thread) unsubscribe(deadline time.Time) {
	if err := t.conn.call(context.Background(), call{method: methodThreadUnsubscribe, params: t, deadline: deadline}); err != nil {
		t.conn.opts.Logger().Debug("unloading a thread", "thread", t.id, "error", err)
	}
}
