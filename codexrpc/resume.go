package codexrpc

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// ToolResult is the client's result of a parked tool call: one for which the turn waits.
type ToolResult struct {
	// CallID is the app-server's id of the call.
	CallID string
	// Parts are texts and images.
	Parts []UserInput
}

type resultPart struct {
	Type string  `json:"type"`
	Text *string `json:"text,omitempty"`
	URL  string  `json:"imageUrl,omitempty"`
}

func (r *ToolResult) answer() map[string]any {
	parts := make([]resultPart, len(r.Parts))
	for i, part := range r.Parts {
		parts[i] = resultPart{Type: "inputText", Text: &part.Text}
		if part.Type == "image" {
			parts[i] = resultPart{Type: "inputImage", URL: part.URL}
		}
	}
	return map[string]any{"contentItems": parts, "success": true}
}

var (
	errUnfinished = errors.New("the turn has not completed")
	errOtherCalls = errors.New("the turn waits for the results of other calls")
	errContinued  = errors.New("the turn went on without the results")
)

// Ended returns a channel that is closed when the turn has completed, failed or was interrupted.
func (t *Thread) Ended() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.endSignal == nil {
		t.endSignal = make(chan struct{})
		if t.turnEnded {
			close(t.endSignal)
		}
	}
	return t.endSignal
}

// TurnEnded reports whether the turn has ended in any way.
func (t *Thread) TurnEnded() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.turnEnded
}

// Completed reports whether the turn has ended without a failure or an interruption.
func (t *Thread) Completed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.completed
}

// NextTurn prepares the thread for another turn. It fails unless the last turn has completed
// ([Thread.Completed]). After NextTurn, the caller may inject items before it calls StartTurn.
// After an error, the caller must close the thread.
func (t *Thread) NextTurn() error {
	if err := t.queue.reset(true); err != nil { // true: drops output of the model, too
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.completed || len(t.parked) > 0 {
		return errUnfinished
	}
	t.previousTurns = append(t.previousTurns[max(0, len(t.previousTurns)-maxPreviousTurns+1):], t.turnID)
	t.turnID = ""
	t.startSent, t.modelWrote, t.turnEnded, t.completed, t.endSignal = false, false, false, false, nil
	t.answerCount, t.outputCount, t.steered = 0, 0, false
	return nil
}

// Steer adds a user's message to the running turn. If the turn waits for results of tool calls, the
// model reads the message after these results.
func (t *Thread) Steer(ctx context.Context, input []UserInput) error {
	params := struct {
		ThreadID string      `json:"threadId"`
		TurnID   string      `json:"expectedTurnId"`
		Input    []UserInput `json:"input"`
	}{t.id, t.currentTurnID(), input}
	t.mu.Lock()
	t.steered = true
	t.mu.Unlock()
	return t.conn.call(ctx, call{method: methodTurnSteer, params: params})
}

// HasParked reports whether the turn waits for the results of exactly these calls.
func (t *Thread) HasParked(callIDs []string) bool {
	changed, err := t.compareParked(callIDs)
	return changed == nil && err == nil
}

// Parked waits until exactly these calls are parked. The app-server's requests may arrive a moment
// after the model response. Parked fails if other calls are parked, if Codex answered a call itself
// because it could not read the arguments, or if the turn, the connection or ctx ends.
func (t *Thread) Parked(ctx context.Context, callIDs []string) error {
	for {
		changed, err := t.compareParked(callIDs)
		if changed == nil {
			return err
		}
		select {
		case <-changed:
		case <-t.Ended():
			return errOtherCalls
		case <-t.conn.done:
			return t.conn.Err()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// compareParked returns nil twice if exactly these calls are parked. If some are still missing, it returns a
// channel that is closed when the calls of the turn change; if the turn cannot wait for these calls any more,
// an error.
func (t *Thread) compareParked(callIDs []string) (changed <-chan struct{}, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.outputCount > t.answerCount { // Codex answered a call itself
		return nil, errContinued
	}
	for _, call := range t.parked {
		if !slices.Contains(callIDs, call.callID) {
			return nil, errOtherCalls
		}
	}
	switch {
	case len(t.parked) == len(callIDs):
		return nil, nil
	case t.turnEnded || len(t.parked) > len(callIDs):
		return nil, errOtherCalls
	}
	if t.callsChanged == nil {
		t.callsChanged = make(chan struct{})
	}
	return t.callsChanged, nil
}

// AnswerCalls sends the results of parked calls. The model continues when each parked call has a result.
// Queued events are dropped; but if one is output of the model, which the client would miss, AnswerCalls
// fails. After an error, the caller must close the thread.
func (t *Thread) AnswerCalls(ctx context.Context, results []ToolResult) error {
	t.setTap(ctx)
	if err := t.queue.reset(false); err != nil { // false: fails if output of the model is queued
		return err
	}
	lines := make([][]byte, len(results))
	for i := range results {
		requestID, err := t.removeParked(results[i].CallID)
		if err != nil {
			return err
		}
		if lines[i], err = encode(outgoing{ID: requestID, Result: results[i].answer()}); err != nil {
			return fmt.Errorf("encoding the result of a call: %w", err)
		}
	}
	t.mu.Lock()
	t.modelWrote = false // the results begin a new response of the model
	t.mu.Unlock()
	for _, line := range lines {
		if tap := tapOf(ctx); tap != nil {
			tap.Line(true, line)
		}
		if err := t.conn.send(ctx, line); err != nil {
			return err
		}
	}
	return nil
}

func (t *Thread) removeParked(callID string) (requestID []byte, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, call := range t.parked {
		if call.callID == callID {
			t.parked = slices.Delete(t.parked, i, i+1)
			t.answerCount++
			return call.requestID, nil
		}
	}
	return nil, errOtherCalls
}
