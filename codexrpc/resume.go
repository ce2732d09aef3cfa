package codexrpc

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// ToolResult is the client's result of a parked tool call, one that the turn waits for.
type ToolResult struct {
	// CallID is the app-server's id of the call.
	CallID string
	// Parts are texts and images.
	Parts []UserInput
}

// toolPart is the JSON of a part of a result.
type toolPart struct {
	Type string  `json:"type"`
	Text *string `json:"text,omitempty"`
	URL  string  `json:"imageUrl,omitempty"`
}

// answer returns the result as the answer to the app-server's request.
func (r *ToolResult) answer() map[string]any {
	parts := make([]toolPart, len(r.Parts))
	for i, part := range r.Parts {
		parts[i] = toolPart{Type: "inputText", Text: &part.Text}
		if part.Type == "image" {
			parts[i] = toolPart{Type: "inputImage", URL: part.URL}
		}
	}
	return map[string]any{"contentItems": parts, "success": true}
}

var (
	errUnfinished = errors.New("the turn has not completed")
	errOtherCalls = errors.New("the turn waits for the results of other calls")
	errWentOn     = errors.New("the turn went on without the results")
)

// Ended returns a channel that is closed when the turn has completed, failed or was interrupted.
func (t *Thread) Ended() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended == nil {
		t.ended = make(chan struct{})
		if t.over {
			close(t.ended)
		}
	}
	return t.ended
}

// Completed reports whether the turn has ended without a failure or an interruption.
func (t *Thread) Completed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.completed
}

// NextTurn prepares the thread for another turn. It fails if the last turn has not completed. After
// NextTurn, the caller may inject items and then calls StartTurn. After an error, the caller must
// close the thread.
func (t *Thread) NextTurn() error {
	if err := t.queue.reset(); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.completed || len(t.parked) > 0 {
		return errUnfinished
	}
	t.previous = append(t.previous[max(0, len(t.previous)-maxPrevious+1):], t.turnID)
	t.turnID = ""
	t.sent, t.heard, t.over, t.completed, t.ended = false, false, false, false, nil
	t.answers, t.outputs = 0, 0
	return nil
}

// Steer adds a user's message to the running turn. If the turn waits for results of tool calls, the
// model reads the message after these results.
func (t *Thread) Steer(ctx context.Context, input []UserInput) error {
	params := struct {
		ThreadID string      `json:"threadId"`
		TurnID   string      `json:"expectedTurnId"`
		Input    []UserInput `json:"input"`
	}{t.id, t.turn(), input}
	return t.conn.call(ctx, call{method: methodTurnSteer, params: params})
}

// HasParked reports whether the turn waits for the results of exactly these calls.
func (t *Thread) HasParked(callIDs []string) bool {
	arrived, err := t.compare(callIDs)
	return arrived == nil && err == nil
}

// Parked returns when exactly these calls are parked (the turn waits for their results). The
// app-server's requests for the results may arrive a moment after the model response. Parked fails
// if other calls are parked, if Codex answered a call itself since it cannot read the arguments, or
// if the turn, the connection or ctx ends.
func (t *Thread) Parked(ctx context.Context, callIDs []string) error {
	for {
		arrived, err := t.compare(callIDs)
		if arrived == nil {
			return err
		}
		select {
		case <-arrived:
		case <-t.Ended():
			return errOtherCalls
		case <-t.conn.done:
			return t.conn.Err()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// compare checks whether the parked calls are exactly the expected ones. If calls are still
// missing, it returns a channel that is closed when the calls of the turn change. If the turn
// cannot wait for exactly these calls any more, it returns an error.
func (t *Thread) compare(callIDs []string) (arrived <-chan struct{}, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.outputs > t.answers {
		return nil, errWentOn
	}
	for _, call := range t.parked {
		if !slices.Contains(callIDs, call.callID) {
			return nil, errOtherCalls
		}
	}
	switch {
	case len(t.parked) == len(callIDs):
		return nil, nil
	case t.over || len(t.parked) > len(callIDs):
		return nil, errOtherCalls
	}
	if t.arrived == nil {
		t.arrived = make(chan struct{})
	}
	return t.arrived, nil
}

// AnswerCalls answers the parked calls, those for whose results the turn waits. The model continues
// when each of them has an answer. AnswerCalls drops the events that are still queued. If a queued
// event has output of the model, AnswerCalls fails instead, since the client would miss that
// output. After an error, the caller must close the thread.
func (t *Thread) AnswerCalls(ctx context.Context, results []ToolResult) error {
	if t.queue.speaks() {
		return errWentOn
	}
	lines := make([][]byte, len(results))
	for i := range results {
		request, err := t.claim(results[i].CallID)
		if err != nil {
			return err
		}
		if lines[i], err = encode(outgoing{ID: request, Result: results[i].answer()}); err != nil {
			return fmt.Errorf("encoding the result of a call: %w", err)
		}
		if limit := t.conn.out.maxWrite; limit > 0 && len(lines[i]) > limit {
			return tooLargeCall(methodToolCall, len(lines[i]), limit)
		}
	}
	if err := t.queue.reset(); err != nil {
		return err
	}
	t.mu.Lock()
	t.heard = false
	t.mu.Unlock()
	for _, line := range lines {
		if err := t.conn.send(ctx, line); err != nil {
			return err
		}
	}
	return nil
}

// claim removes a parked call and returns the id of its request.
func (t *Thread) claim(callID string) (request []byte, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, call := range t.parked {
		if call.callID == callID {
			t.parked = slices.Delete(t.parked, i, i+1)
			t.answers++
			return call.request, nil
		}
	}
	return nil, errOtherCalls
}
