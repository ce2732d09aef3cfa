package codexrpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/tidwall/gjson"
)

// maxParked bounds the unanswered tool calls of one turn. Further ones are refused
// at once. The turn then still ends with its model response.
const maxParked = 4096

// Thread is one conversation on the app-server. It runs one turn at a time. After a
// turn that has completed another one may follow ([Thread.NextTurn]), but not after
// an interrupted one: Codex records the interruption in the history.
type Thread struct {
	id    string
	conn  *Conn
	queue *queue
	ended chan struct{} // closed when the turn has ended
	fork  bool          // see Fork
	item  string        // the id of the last item; used by the reader alone

	mu        sync.Mutex
	sent      bool          // turn/start has been sent
	over      bool          // ended is closed
	completed bool          // over, and neither failed nor interrupted
	turnID    string        // empty: not known yet
	previous  string        // the id of the turn before
	parked    []parkedCall  // unanswered item/tool/call requests
	arrived   chan struct{} // closed when the next one arrives; nil: nobody waits
	answered  bool          // the parked calls have been answered for good
}

// StartThread starts a thread. If ctx ends before the answer comes, the thread is
// unloaded in the background.
func (c *Conn) StartThread(ctx context.Context, params ThreadStartParams) (*Thread, error) {
	return c.openThread(ctx, methodThreadStart, &params, func(gjson.Result) bool { return true })
}

// openThread makes a call whose answer has a new thread, unless accept refuses that. A
// thread that is not used is unloaded in the background.
func (c *Conn) openThread(ctx context.Context, method string, params any, accept func(thread gjson.Result) bool) (*Thread, error) {
	var t *Thread
	err := c.call(ctx, call{
		method: method,
		params: params,
		// By the reader, before it reads the first event of the thread.
		answered: func(answer message, late bool) {
			thread := answer.result.Get("thread")
			id := strings.Clone(thread.Get("id").Str)
			switch {
			case id == "":
			case late || !accept(thread):
				c.background(func(ctx context.Context) { c.unsubscribe(ctx, id) }, nil)
			default:
				t = c.addThread(id)
			}
		},
	})
	if err != nil {
		return nil, err
	}
	if t == nil {
		return nil, fmt.Errorf("%s was answered without a new thread that can be used", method)
	}
	return t, nil
}

// addThread registers a thread for its events. It returns nil for an id that is in
// use, since the events would reach another caller.
func (c *Conn) addThread(id string) *Thread {
	t := &Thread{id: id, conn: c, queue: newQueue(&c.wakes), ended: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		t.queue.fail(c.err)
		return t
	}
	if c.threads[id] != nil {
		return nil
	}
	c.threads[id] = t
	return t
}

// ID returns the app-server's id of the thread.
func (t *Thread) ID() string { return t.id }

// InjectItems appends Responses-API items, each a JSON object, to the thread's
// history. The app-server silently drops items with the role system.
func (t *Thread) InjectItems(ctx context.Context, items []json.RawMessage) error {
	return t.conn.call(ctx, call{method: methodThreadInject, params: injectParams{t.id, items}})
}

// StartTurn starts a turn and sets params.ThreadID. If ctx ends before the answer
// comes the turn may run; Close interrupts it.
func (t *Thread) StartTurn(ctx context.Context, params TurnStartParams) error {
	params.ThreadID, params.noEnvironments = t.id, t.fork
	if params.Input == nil {
		params.Input = []UserInput{}
	}
	err := t.conn.call(ctx, call{
		method: methodTurnStart,
		params: &params,
		sent:   t.markSent,
		answered: func(answer message, late bool) {
			switch id := answer.result.Get("turn.id").Str; {
			case id != "":
				t.begin(id)
			case late:
				t.end(false) // it was refused: there is no turn to wait for
			}
		},
	})
	if err == nil {
		if t.turn() == "" {
			return fmt.Errorf("%s was answered without a turn id", methodTurnStart)
		}
		return nil
	}
	if refused := (*CallError)(nil); errors.As(err, &refused) {
		t.end(false)
	}
	return err
}

// Ready receives an element when Recv may return something new. Only one goroutine
// may wait for it.
func (t *Thread) Ready() <-chan struct{} { return t.queue.wake }

// Wake adds an element to Ready unless it has one.
func (t *Thread) Wake() { t.queue.signal() }

// Recv returns the events of the turn that have been received, in order, without
// waiting; none is no error. It reuses the memory of spent, the batch of the call
// before. After the last event it returns why there are no more: an error that
// matches ErrClosed or ErrTooSlow. It returns no events before the turn's id is
// known.
func (t *Thread) Recv(spent []Event) ([]Event, error) {
	turnID := t.turn()
	if turnID == "" {
		return nil, t.queue.ended()
	}
	for {
		events, err := t.queue.recv(spent)
		if len(events) == 0 {
			return nil, err
		}
		if spent = ofTurn(events, turnID); len(spent) > 0 {
			return spent, nil
		}
	}
}

// ofTurn keeps the events of one turn. Events of others may have been queued before
// the id of the turn was known.
func ofTurn(events []Event, turnID string) []Event {
	kept := events[:0]
	for i := range events {
		if events[i].turnID == turnID {
			kept = append(kept, events[i])
		}
	}
	clear(events[len(kept):])
	return kept
}

// Interrupt asks the app-server to end the turn. turn/completed follows, with the
// status interrupted.
func (t *Thread) Interrupt(ctx context.Context) error {
	return t.conn.interrupt(ctx, t.id, t.turn())
}
