package codexrpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// maxParked bounds the parked (unanswered) tool calls of one turn. Further calls are refused
// immediately, which does not end the turn.
const maxParked = 4096

// maxPreviousTurns bounds the ids of earlier turns that a thread keeps, to recognise late events.
const maxPreviousTurns = 64

// Thread is one conversation on the app-server. It runs one turn (an answer of the model) at a
// time. After a completed turn, another turn may follow ([Thread.NextTurn]). After an interrupted
// turn, no other turn may follow, since Codex records the interruption in the history.
type Thread struct {
	id         string
	conn       *Conn
	queue      queue
	lastItemID string // the id of the item of the last event; only the goroutine that reads the connection uses it

	fellBack atomic.Bool // see FellBack

	mu            sync.Mutex
	tapped        tapped
	startSent     bool          // turn/start has been sent
	turnEnded     bool          // the turn has ended
	modelWrote    bool          // the model has written something since the turn began, or since calls were last answered
	completed     bool          // the turn has ended without a failure or an interruption
	refusesCalls  bool          // further tool calls are refused, see stopParking
	endSignal     chan struct{} // closed when the turn has ended; nil: Ended was not called
	turnID        string        // empty: not known yet
	previousTurns []string      // the ids of the last maxPreviousTurns turns before this one
	onInput       func()        // see OnInput; nil: none
	parked        []parkedCall  // unanswered item/tool/call requests
	answerCount   int           // how many parked requests of the turn were answered
	steered       bool          // the user's message follows the results, see Steer
	outputCount   int           // how many calls of the turn have an output; if more than answerCount, Codex answered some calls itself
	callsChanged  chan struct{} // closed when parked or outputCount changes; nil: nobody waits for a change
}

// StartThread starts a thread. If ctx ends before the app-server answers, StartThread fails. When
// the answer arrives later, the thread is unloaded in the background.
func (c *Conn) StartThread(ctx context.Context, params ThreadStartParams) (*Thread, error) {
	return c.startThread(ctx, call{method: methodThreadStart, params: &params})
}

// PrepareThread starts a thread in the background, with params from [ThreadStartParams.AppendJSON].
// It returns false, and starts nothing, if too many calls are in flight. Otherwise ready is called
// after the start, with the thread, or nil if the start has failed.
func (c *Conn) PrepareThread(params Constant, ready func(*Thread)) bool {
	select {
	case c.calls.slots <- struct{}{}:
	default:
		return false
	}
	var t *Thread
	c.background(func(deadline time.Time) {
		defer func() { <-c.calls.slots }()
		var err error
		// The call is urgent, so that it takes no second slot and is not retried.
		if t, err = c.startThread(context.Background(), call{method: methodThreadStart, params: params, deadline: deadline, urgent: true}); err != nil {
			c.opts.Logger().Debug("preparing a thread", "error", err)
		}
	}, func() { ready(t) })
	return true
}

func (c *Conn) startThread(ctx context.Context, spec call) (*Thread, error) {
	t := &Thread{conn: c, tapped: tapped{tap: tapOf(ctx)}}
	t.queue.init(&c.in.wakeList)
	spec.onAnswer = t.register
	if err := c.call(ctx, spec); err != nil {
		return nil, err
	}
	if t.id == "" {
		return nil, fmt.Errorf("%s was answered without a new thread that can be used", spec.method)
	}
	return t, nil
}

// register registers the thread in the answer to the call that starts it, before the next message is read,
// so that the thread gets all its events. If the answer is late, register unloads the thread instead.
func (t *Thread) register(answer message, late bool) {
	switch t.id = strings.Clone(textAt(answer.result, "thread", "id")); {
	case t.id == "":
	case late:
		t.conn.background(t.unsubscribe, nil)
	case !t.conn.addThread(t):
		t.id = "" // so that startThread fails
	}
}

// addThread registers a thread, so that it gets its events, or the error of a connection that has ended. It
// returns false if another thread has the same id, since the events would reach the wrong caller.
func (c *Conn) addThread(t *Thread) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err != nil:
		t.queue.fail(c.err)
	case c.threads[t.id] != nil:
		return false
	default:
		c.threads[t.id] = t
	}
	return true
}

// FailBeginning makes [Thread.Recv] fail with err, but only if the model has written nothing yet
// ([Conn.Beginning] is true for the thread). Codex itself continues the turn until [Thread.Close].
func (c *Conn) FailBeginning(thread string, err error) {
	if t := c.thread(thread); t.isBeginning() {
		t.queue.fail(err)
	}
}

// Beginning reports whether a turn of the thread runs and the model has written nothing since the
// turn began, or since its last tool calls were answered.
func (c *Conn) Beginning(thread string) bool { return c.thread(thread).isBeginning() }

func (t *Thread) isBeginning() bool {
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.startSent && !t.turnEnded && !t.modelWrote
}

func (e *Event) isModelOutput() bool {
	switch e.Kind {
	case EventItemStarted, EventItemCompleted:
		return e.ItemType == ItemAgentMessage || e.ItemType == ItemReasoning
	case EventTextDelta, EventReasoningDelta, EventFunctionCall, EventReasoningItem, EventWebSearch, EventResponseCompleted:
		return true
	}
	return false
}

// ID returns the app-server's id of the thread.
func (t *Thread) ID() string { return t.id }

// InjectItems appends items of the Responses API, each a JSON object, to the thread's history. The
// app-server silently drops items with the role system.
func (t *Thread) InjectItems(ctx context.Context, items []json.RawMessage) error {
	return t.conn.call(ctx, call{method: methodThreadInject, params: injectParams{t.id, items}})
}

// StartTurn starts a turn on this thread; it ignores params.ThreadID. If ctx ends before the
// app-server answers, the turn may run all the same. [Thread.Close] interrupts such a turn.
func (t *Thread) StartTurn(ctx context.Context, params TurnStartParams) error {
	params.ThreadID = t.id
	t.setTap(ctx)
	if params.Input == nil {
		params.Input = []UserInput{}
	}
	err := t.conn.call(ctx, call{method: methodTurnStart, params: &params, onSent: t.turnSent, onAnswer: t.turnAnswered})
	if err == nil {
		if t.currentTurnID() == "" {
			return fmt.Errorf("%s was answered without a turn id", methodTurnStart)
		}
		if len(params.Input) == 0 { // no userMessage will come, which would show that the input was read
			t.notifyInputRead()
		}
		return nil
	}
	if refused := (*CallError)(nil); errors.As(err, &refused) {
		t.endTurn(false) // there is no turn to wait for
	}
	return err
}

// OnInput sets the function f that is called when Codex has read the input of the next turn, or the
// results of the parked calls, and so has decoded the images in them. f may be nil and must be quick.
// f is not called if the turn ends before Codex has read them.
func (t *Thread) OnInput(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.onInput = f
}

func (t *Thread) notifyInputRead() {
	if t == nil {
		return
	}
	t.mu.Lock()
	f := t.onInput
	t.onInput = nil
	t.mu.Unlock()
	if f != nil {
		f()
	}
}

// turnSent is the onSent of turn/start.
func (t *Thread) turnSent() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.startSent = true
}

// turnAnswered is the onAnswer of turn/start.
func (t *Thread) turnAnswered(answer message, late bool) {
	switch id := textAt(answer.result, "turn", "id"); {
	case id != "":
		t.setTurnID(id)
	case late: // StartTurn has returned, and so cannot call endTurn
		t.endTurn(false) // turn/start was refused: there is no turn to wait for
	}
}

// Ready returns a channel with an element when Recv may return something new, for one goroutine.
func (t *Thread) Ready() <-chan struct{} { return t.queue.wake }

// Wake adds an element to the channel of Ready if the channel is empty.
func (t *Thread) Wake() { t.queue.signal() }

// Recv returns the turn's queued events, valid until the next Recv or Close. It does not wait, so it may
// return neither events nor an error, as before the turn's id is known. If events were cut off, it returns
// the reason after the queued events: an error that matches ErrClosed, ErrTooSlow or ErrMessageTooLarge, or
// the error that FailBeginning got.
func (t *Thread) Recv() ([]Event, error) {
	turnID, tap := t.running()
	if turnID == "" {
		return nil, t.queue.errIfEmpty()
	}
	for {
		events, lines, err := t.queue.recv()
		if tap != nil && (len(events) > 0 || err != nil) {
			tap.Read(lines, err)
		}
		if len(events) == 0 {
			return nil, err
		}
		if events = eventsOfTurn(events, turnID); len(events) > 0 {
			return events, nil
		}
	}
}

// Events returns the events of the turn. It waits for each event, and ends after
// [EventTurnCompleted], which a failed turn has, too. If [Thread.Recv] fails before that, the last
// element has its error instead of an event. If ctx ends before that, the last element has the
// cause. Only one goroutine may read a turn: with Events, or with [Thread.Ready] and [Thread.Recv].
func (t *Thread) Events(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for {
			events, err := t.Recv()
			for _, e := range events {
				if !yield(e, nil) || e.Kind == EventTurnCompleted {
					return
				}
			}
			if err == nil && len(events) == 0 {
				select {
				case <-t.Ready():
				case <-ctx.Done():
					err = context.Cause(ctx)
				}
			}
			if err != nil {
				yield(Event{}, err)
				return
			}
		}
	}
}

// eventsOfTurn removes other turns' events, queued before the id of this turn was known.
func eventsOfTurn(events []Event, turnID string) []Event {
	if len(events) == 1 && events[0].turnID == turnID {
		return events // the usual case
	}
	return slices.DeleteFunc(events, func(e Event) bool { return e.turnID != turnID })
}

// FellBack reports whether Codex has switched this thread's requests to the model provider from a
// WebSocket to HTTP, because the WebSocket has failed. It is false if the WebSocket was only as old
// as the provider allows.
func (t *Thread) FellBack() bool { return t.fellBack.Load() }

// Interrupt asks the app-server to end the turn. The app-server then sends turn/completed with the
// status interrupted.
func (t *Thread) Interrupt(ctx context.Context) error {
	params := struct {
		ThreadID string `json:"threadId"`
		TurnID   string `json:"turnId"`
	}{t.id, t.currentTurnID()}
	return t.conn.call(ctx, call{method: methodTurnInterrupt, params: params})
}

// accept queues an event that may belong to the running turn; eventTurnStarted only sets the turn's
// id. Only the reading goroutine calls it.
func (t *Thread) accept(e *Event) {
	switch e.Kind {
	case eventTurnStarted:
		t.setTurnID(e.turnID)
		return
	case EventTurnCompleted:
		t.setTurnID(e.turnID) // turn/completed may be the first event of the turn
	case EventError:
		if e.turnID == "" {
			e.turnID = t.currentTurnID() // the event comes from a warning, which names no turn
		}
		if e.fellBack {
			t.fellBack.Store(true)
		}
	}
	if !t.mayBelong(e) {
		return
	}
	switch e.Kind {
	case EventTurnCompleted:
		t.conn.turnCompleted.Store(true)
		t.endTurn(e.Status == StatusCompleted) // before push, since the consumer may call NextTurn as soon as it gets the event
	case EventCallOutput:
		t.countOutput()
	}
	e.copyStrings(t)
	t.queue.push(e)
}

// mayBelong reports whether an event may belong to the running turn. If the turn's id is known, the event
// must have this id. If the id is not known yet, all events may belong to the turn, except events of
// t.previousTurns, and function calls and their outputs: Codex repeats injected ones under another turn's
// id. Recv later drops events of other turns. If mayBelong returns true, e.turnID is a copy that does not
// share the memory of the line.
func (t *Thread) mayBelong(e *Event) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.turnID == "" {
		e.turnID = strings.Clone(e.turnID)
		return e.Kind != EventFunctionCall && e.Kind != EventCallOutput && !slices.Contains(t.previousTurns, e.turnID)
	}
	if e.turnID != t.turnID {
		return false
	}
	e.turnID = t.turnID
	t.modelWrote = t.modelWrote || e.isModelOutput()
	return true
}

func (t *Thread) currentTurnID() string {
	turnID, _ := t.running()
	return turnID
}

// setTurnID sets the id of the running turn, unless it is known or turnID is that of an earlier turn. Only the
// goroutine that reads the connection calls it.
func (t *Thread) setTurnID(turnID string) {
	t.mu.Lock()
	isNew := t.turnID == "" && !slices.Contains(t.previousTurns, turnID)
	if isNew {
		t.turnID = strings.Clone(turnID)
	}
	t.mu.Unlock()
	if isNew {
		t.queue.scheduleWake() // since Recv can return the queued events now
	}
}

// endTurn records that the turn has ended, or was never started. completed is false after a failure or an
// interruption.
func (t *Thread) endTurn(completed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.turnEnded {
		t.turnEnded, t.completed = true, completed
		if t.endSignal != nil {
			close(t.endSignal)
		}
	}
}

func (t *Thread) isRunning() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.startSent && !t.turnEnded
}

type parkedCall struct {
	callID    string
	requestID json.RawMessage // the id of the request
}

// park stores an item/tool/call request and leaves it unanswered, since the model continues after
// an answer. It returns false if the caller must refuse the request.
func (t *Thread) park(callID string, requestID json.RawMessage) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.refusesCalls || len(t.parked) >= maxParked || len(callID) > maxID {
		return false
	}
	t.parked = append(t.parked, parkedCall{strings.Clone(callID), requestID})
	t.signalCallsChanged()
	return true
}

// countOutput counts an output of a call. After the output of the last answered call, Codex has read all
// results, which notifyInputRead reports.
func (t *Thread) countOutput() {
	t.mu.Lock()
	t.outputCount++
	t.signalCallsChanged()
	inputRead := !t.steered && t.outputCount == t.answerCount // after Steer, the user's message is read last
	t.mu.Unlock()
	if inputRead {
		t.notifyInputRead()
	}
}

// signalCallsChanged wakes the callers of Parked. The caller holds the lock.
func (t *Thread) signalCallsChanged() {
	if t.callsChanged != nil {
		close(t.callsChanged)
		t.callsChanged = nil
	}
}

// stopParking returns the parked requests and makes park refuse later requests.
func (t *Thread) stopParking() []parkedCall {
	t.mu.Lock()
	defer t.mu.Unlock()
	parked := t.parked
	t.parked, t.refusesCalls = nil, true
	t.answerCount += len(parked) // the caller answers them
	return parked
}
