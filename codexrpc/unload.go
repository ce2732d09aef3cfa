package codexrpc

import (
	"context"
	"errors"
	"time"
)

const (
	// closeTimeout bounds the unloading of a thread.
	closeTimeout = 20 * time.Second
	// finishTimeout is the part of closeTimeout in which the turn has to end.
	finishTimeout = 15 * time.Second
	// refusedGrace is how long to wait for turn/completed after the interruption was
	// refused, usually because the turn has just ended by itself.
	refusedGrace = time.Second
)

// Close ends the thread in the background: it interrupts an unfinished turn, waits for the end of
// the turn, answers parked tool calls and unloads the thread. Close returns at once and must not be
// called again. released, if not nil, is called after the unloading, also if that failed; released
// may close the connection.
func (t *Thread) Close(released func()) { t.conn.background(t.unload, released) }

// addCloser adds one to the goroutines and calls for which Close waits. It reports false if
// the connection has ended.
func (c *Conn) addCloser() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.closers.Add(1)
	}
	return c.err == nil
}

// background runs f in a goroutine of the connection, with a deadline. Afterwards it calls the
// function then, unless that is nil. If the connection has ended, background runs both functions
// before it returns: all calls of f fail at once.
func (c *Conn) background(f func(until time.Time), then func()) {
	until := time.Now().Add(closeTimeout)
	if !c.addCloser() {
		f(until)
		if then != nil {
			then()
		}
		return
	}
	go func() {
		if then != nil {
			// Runs after closers.Done: then may call Conn.Close, which waits for closers.
			defer then()
		}
		defer c.closers.Done()
		f(until)
	}()
}

// unload does the work of Close.
func (t *Thread) unload(until time.Time) {
	t.queue.drop(errClosedThread)
	if t.running() {
		t.finish()
	}
	t.answerParked(until)
	t.unsubscribe(until)
	t.remove()
}

// remove ends the routing of events to the thread.
func (t *Thread) remove() {
	t.conn.mu.Lock()
	defer t.conn.mu.Unlock()
	if t.conn.threads[t.id] == t {
		delete(t.conn.threads, t.id)
	}
}

// RefuseCalls answers the parked tool calls of the turn with a failure, in the background. Later
// calls are refused at once. If the model's response broke off after calls, Codex reports that
// only when the calls are answered. The thread must be closed after the turn.
func (t *Thread) RefuseCalls() { t.conn.background(t.answerParked, nil) }

// answerParked answers the parked tool calls of the turn.
func (t *Thread) answerParked(until time.Time) {
	parked := t.unpark()
	if len(parked) == 0 {
		return
	}
	ctx, cancel := context.WithDeadlineCause(context.Background(), until, ErrTimeout)
	defer cancel()
	for _, call := range parked {
		message, err := encode(outgoing{ID: call.request, Result: toolCallFailed})
		if err == nil {
			err = t.conn.send(ctx, message)
		}
		if err != nil {
			t.conn.logger().Debug("answering a tool call", "thread", t.id, "error", err)
			return
		}
	}
}

var errClosedThread = errors.New("the thread was closed")

// finish interrupts the turn and waits until it has ended.
func (t *Thread) finish() {
	ctx, cancel := context.WithTimeoutCause(context.Background(), finishTimeout, ErrTimeout)
	defer cancel()
	if err := t.Interrupt(ctx); err != nil {
		t.conn.logger().Debug("interrupting a turn", "thread", t.id, "error", err)
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, refusedGrace)
		defer stop()
	}
	select {
	case <-t.Ended():
	case <-t.conn.done:
	case <-ctx.Done():
	}
}

// unsubscribe makes the app-server unload the thread.
func (t *Thread) unsubscribe(until time.Time) {
	if err := t.conn.call(context.Background(), call{method: methodThreadUnsubscribe, params: t, until: until}); err != nil {
		t.conn.logger().Debug("unloading a thread", "thread", t.id, "error", err)
	}
}

// Unfinished returns the ids of the threads whose turns may still be running. After the end of the
// connection, it returns the threads whose turns may have been running at that moment.
func (c *Conn) Unfinished() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.unfinished
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

// InterruptAll interrupts the turns of threads, which may have been started on
// another connection. It ignores refusals, which mean that the turn has ended.
func (c *Conn) InterruptAll(ctx context.Context, threads []string) {
	for _, id := range threads {
		if err := c.interrupt(ctx, id, ""); err != nil {
			c.logger().Debug("interrupting the turn of a lost connection", "thread", id, "error", err)
		}
		if ctx.Err() != nil || c.Err() != nil {
			return
		}
	}
}

// interrupt asks the app-server to end a turn. An empty turn id means the thread's active turn.
func (c *Conn) interrupt(ctx context.Context, thread, turn string) error {
	params := struct {
		ThreadID string `json:"threadId"`
		TurnID   string `json:"turnId"`
	}{thread, turn}
	return c.call(ctx, call{method: methodTurnInterrupt, params: params})
}
