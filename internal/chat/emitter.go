package chat

import (
	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// Emitter passes on the objects of a stream, until the first error. The streams of chat
// completions and of legacy completions embed an Emitter.
type Emitter struct {
	Total
	emit     func(data []byte) error
	finished []bool // by choice
	left     int    // choices that have not finished
	done     bool
	err      error // the first error of emit
}

// NewEmitter returns an Emitter that passes objects to emit, for a stream with a number of choices.
func NewEmitter(choices int, emit func(data []byte) error) Emitter {
	return Emitter{emit: emit, finished: make([]bool, choices), left: choices}
}

// Send emits an object. After the first error of emit, it does nothing.
func (e *Emitter) Send(data []byte) {
	if e.err == nil {
		e.err = e.emit(data)
	}
}

// Err is the first error of emit.
func (e *Emitter) Err() error { return e.err }

// Fail ends the stream with an error object. It returns the error of emit, if any.
func (e *Emitter) Fail(apiErr *apierror.Error) error {
	if !e.done {
		e.done = true
		e.Send(apiErr.Body())
	}
	return e.err
}

// Over reports whether a choice is over: nothing more of it may be emitted.
func (e *Emitter) Over(choice int) bool { return e.done || e.err != nil || e.finished[choice] }

// Finish ends a choice, whose last output is out. When all choices have finished, the stream ends.
// If usage is not nil, Finish first sends the object that usage returns.
func (e *Emitter) Finish(choice int, out *turn.Output, usage func(*Usage) []byte) {
	e.finished[choice] = true
	e.Add(out)
	if e.left--; e.left > 0 {
		return
	}
	if usage != nil {
		e.Send(usage(e.Usage()))
	}
	e.done = e.err == nil
}

// Done reports whether the last object has been sent, since all choices have finished or the
// request has failed. "[DONE]" then has to follow.
func (e *Emitter) Done() bool { return e.done }

// Total is the usage of the choices that have finished.
type Total struct {
	usage     codexrpc.Usage
	estimated bool // a part of the usage does not come from Codex
}

// Add adds the usage of a choice, which is in its last output.
func (t *Total) Add(out *turn.Output) {
	t.usage, t.estimated = t.usage.Add(out.Usage), t.estimated || out.Estimated
}

// Usage returns the usage in the form of the API.
func (t *Total) Usage() *Usage {
	u := t.usage
	w := &Usage{PromptTokens: u.InputTokens, CompletionTokens: u.OutputTokens, TotalTokens: u.TotalTokens, Estimated: t.estimated}
	w.PromptDetails.CachedTokens = u.CachedInputTokens
	w.PromptDetails.CacheWriteTokens = u.CacheWriteInputTokens
	w.CompletionDetails.ReasoningTokens = u.ReasoningOutputTokens
	return w
}
