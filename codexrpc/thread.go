package codexrpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
)

// maxParked bounds the tool calls of one turn that wait for an answer. More
// are refused at once; the turn then still ends with its model response.
const maxParked = 4096

// Thread is one conversation on the app-server. It runs one turn at a time. After
// one that has completed there may be others ([Thread.NextTurn]); after one that was
// interrupted there are none, since Codex leaves a mark of that in the history.
type Thread struct {
	id    string
	conn  *Conn
	queue *queue
	ended chan struct{} // closed when the turn has ended

	mu       sync.Mutex
	sent     bool          // turn/start is on its way
	over     bool          // ended is closed
	well     bool          // the turn has completed
	turnID   string        // empty until the app-server has told it
	before   string        // the id of the turn before
	parked   []parkedCall  // unanswered item/tool/call requests
	arrived  chan struct{} // closed with the next of them; nil if nobody waits
	answered bool          // the parked calls have been answered for good
}

// StartThread starts a thread. When ctx ends before the answer, the thread is
// unloaded once it comes.
func (c *Conn) StartThread(ctx context.Context, params ThreadStartParams) (*Thread, error) {
	defer c.open()()
	var t *Thread
	err := c.call(ctx, call{
		method: methodThreadStart,
		params: params,
		// In the reader, so that no message can come between.
		answered: func(answer message, late bool) {
			id := strings.Clone(answer.result.Get("thread.id").Str)
			switch {
			case id == "":
			case late:
				c.background(func(ctx context.Context) { c.unsubscribe(ctx, id) }, nil)
			default:
				t = c.adopt(id)
			}
		},
	})
	if err != nil {
		return nil, err
	}
	if t == nil {
		return nil, fmt.Errorf("%s was answered without the id of a new thread", methodThreadStart)
	}
	return t, nil
}

// open counts a caller who is about to have a thread, until the returned
// function is called.
func (c *Conn) open() (opened func()) {
	count := func(n int) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.opening += n
	}
	count(1)
	return func() { count(-1) }
}

// adopt makes the events of a thread reach it. It returns nil for an id that
// is in use: its events would reach another caller.
func (c *Conn) adopt(id string) *Thread {
	t := &Thread{id: id, conn: c, queue: newQueue(), ended: make(chan struct{})}
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

// ID is the app-server's id of the thread.
func (t *Thread) ID() string { return t.id }

// InjectItems appends Responses-API items, each a JSON object, to the thread's
// history. An item with role system would be dropped by the app-server without
// a word.
func (t *Thread) InjectItems(ctx context.Context, items []json.RawMessage) error {
	return t.conn.call(ctx, call{method: methodThreadInject, params: injectParams{t.id, items}})
}

// StartTurn starts a turn of the thread; params.ThreadID is set here. When
// ctx ends before the answer, the turn may run: Close interrupts it.
func (t *Thread) StartTurn(ctx context.Context, params TurnStartParams) error {
	params.ThreadID = t.id
	if params.Input == nil {
		params.Input = []UserInput{}
	}
	err := t.conn.call(ctx, call{
		method: methodTurnStart,
		params: params,
		sent:   t.markSent,
		answered: func(answer message, late bool) {
			switch id := answer.result.Get("turn.id").Str; {
			case id != "":
				t.begin(id)
			case late:
				t.end() // it was refused: there is no turn to wait for
			}
		},
	})
	if refused := (*CallError)(nil); errors.As(err, &refused) {
		t.end()
	}
	if err == nil && t.turn() == "" {
		return fmt.Errorf("%s was answered without a turn id", methodTurnStart)
	}
	return err
}

// Ready gets an element when Take may have something new. One goroutine may
// wait for it.
func (t *Thread) Ready() <-chan struct{} { return t.queue.wake }

// Take returns the turn's events that are there, in order, without waiting;
// none is no error. spent is the batch of the call before, whose memory is
// used again. After the last event it returns why there will be none: an error
// that matches ErrClosed or ErrTooSlow. There is nothing to take before the
// turn's id is known.
func (t *Thread) Take(spent []Event) ([]Event, error) {
	turnID := t.turn()
	if turnID == "" {
		return nil, t.queue.ended()
	}
	for {
		events, err := t.queue.take(spent)
		if len(events) == 0 {
			return nil, err
		}
		if spent = own(events, turnID); len(spent) > 0 {
			return spent, nil
		}
	}
}

// own keeps the events of one turn. Only some that were queued before its id
// was known can be others.
func own(events []Event, turnID string) []Event {
	kept := events[:0]
	for i := range events {
		if events[i].turnID == turnID {
			kept = append(kept, events[i])
		}
	}
	clear(events[len(kept):])
	return kept
}

// Interrupt asks the app-server to end the turn. The model's stream is closed
// and turn/completed follows with status interrupted.
func (t *Thread) Interrupt(ctx context.Context) error {
	params := struct {
		ThreadID string `json:"threadId"`
		TurnID   string `json:"turnId"`
	}{t.id, t.turn()} // empty before the id is known: the active turn
	return t.conn.call(ctx, call{method: methodTurnInterrupt, params: params})
}
