package codexrpc

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// ToolResult is the result of a tool call that waits for one.
type ToolResult struct {
	// CallID is the app-server's id of the call.
	CallID string
	// Parts are texts and images.
	Parts []UserInput
}

// toolText and toolImage are the parts of a result as item/tool/call wants them.
type (
	toolText struct {
		Type string `json:"type"` // inputText
		Text string `json:"text"`
	}
	toolImage struct {
		Type string `json:"type"` // inputImage
		URL  string `json:"imageUrl"`
	}
)

// answer is the result as item/tool/call wants it.
func (r *ToolResult) answer() map[string]any {
	parts := make([]any, len(r.Parts))
	for i, part := range r.Parts {
		if part.Type == "image" {
			parts[i] = toolImage{"inputImage", part.URL}
		} else {
			parts[i] = toolText{"inputText", part.Text}
		}
	}
	return map[string]any{"contentItems": parts, "success": true}
}

var (
	errUnfinished = errors.New("the turn has not completed")
	errOtherCalls = errors.New("the turn waits for the results of other calls")
)

// Ended is closed when the turn has ended, in whatever way.
func (t *Thread) Ended() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ended
}

// Completed reports whether the turn has ended as turns do: it was not
// interrupted and has not failed.
func (t *Thread) Completed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.over && t.well
}

// NextTurn prepares the thread for one more StartTurn, which is possible once a
// turn has completed. Items may be injected before it. The error says why not; the
// thread is to be closed then.
func (t *Thread) NextTurn() error {
	if err := t.queue.reset(); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.over || !t.well || len(t.parked) > 0 {
		return errUnfinished
	}
	t.before, t.turnID = t.turnID, ""
	t.sent, t.over, t.well = false, false, false
	t.ended = make(chan struct{})
	return nil
}

// Steer adds a message of the user's to the turn, behind the results of the calls
// that it waits for.
func (t *Thread) Steer(ctx context.Context, input []UserInput) error {
	params := struct {
		ThreadID string      `json:"threadId"`
		TurnID   string      `json:"expectedTurnId"`
		Input    []UserInput `json:"input"`
	}{t.id, t.turn(), input}
	return t.conn.call(ctx, call{method: methodTurnSteer, params: params})
}

// Parked waits until the turn waits for the results of exactly these calls, which
// may be a moment after the model response that has made them. The error is ctx's,
// or that the turn waits for others.
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

// compare compares the parked calls with those that are expected. If some are
// missing yet it returns a channel that is closed when the next one comes.
func (t *Thread) compare(callIDs []string) (arrived <-chan struct{}, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
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

// AnswerCalls answers the calls that the turn waits for, all of them, and the
// model goes on. What is queued of the turn before is let go of. After an error the
// thread is to be closed.
func (t *Thread) AnswerCalls(ctx context.Context, results []ToolResult) error {
	lines := make([][]byte, len(results))
	for i := range results {
		request, err := t.claim(results[i].CallID)
		if err != nil {
			return err
		}
		if lines[i], err = encode(outgoing{ID: request, Result: results[i].answer()}); err != nil {
			return fmt.Errorf("encoding the result of a call: %w", err)
		}
		if limit := t.conn.maxWrite; limit > 0 && len(lines[i]) > limit {
			return tooLargeCall(methodToolCall, len(lines[i]), limit)
		}
	}
	if err := t.queue.reset(); err != nil {
		return err
	}
	for _, line := range lines {
		if err := t.conn.send(ctx, line); err != nil {
			return err
		}
	}
	return nil
}

// claim takes the request of a parked call.
func (t *Thread) claim(callID string) (request []byte, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, call := range t.parked {
		if call.callID == callID {
			t.parked = slices.Delete(t.parked, i, i+1)
			return call.request, nil
		}
	}
	return nil, errOtherCalls
}
