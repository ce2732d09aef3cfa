package chat

import (
	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// Emitter emits the objects of a stream, until emit returns an error. It also records which choices
// have finished, and adds up their usage. [Stream] embeds it.
type Emitter struct {
	Total
	emit       func(data []byte) error
	finished   []bool // by choice
	unfinished int    // how many choices have not finished
	done       bool
	err        error // the first error of emit
}

// NewEmitter returns an Emitter for a stream with this number of choices. The Emitter passes each
// object to emit.
func NewEmitter(choices int, emit func(data []byte) error) Emitter {
	return Emitter{emit: emit, finished: make([]bool, choices), unfinished: choices}
}

// Send emits an object. After the first error of emit, it does nothing.
func (e *Emitter) Send(data []byte) {
	if e.err == nil {
		e.err = e.emit(data)
	}
}

// Err returns the first error of emit.
func (e *Emitter) Err() error { return e.err }

// Fail ends the stream with an error object, unless the stream is already complete. It returns the
// first error of emit.
func (e *Emitter) Fail(apiErr *apierror.Error) error {
	if !e.done {
		e.done = true
		e.Send(apiErr.Body())
	}
	return e.err
}

// IsClosed reports whether a choice or the whole stream has ended. If so, nothing more of the
// choice may be emitted.
func (e *Emitter) IsClosed(choice int) bool { return e.done || e.err != nil || e.finished[choice] }

// Finish ends a choice; out is the choice's last output. When all choices have ended, Finish also
// ends the stream: if usage is not nil, Finish sends the result of usage as the last object of the
// stream.
func (e *Emitter) Finish(choice int, out *turn.Output, usage func(*Usage) []byte) {
	e.finished[choice] = true
	e.Add(out)
	if e.unfinished--; e.unfinished > 0 {
		return
	}
	if usage != nil {
		e.Send(usage(e.Usage()))
	}
	e.done = e.err == nil
}

// Done reports whether the stream is complete: all choices have finished without an error of emit,
// or Fail was called. If so, the caller sends "[DONE]".
func (e *Emitter) Done() bool { return e.done }

// Total is the sum of the usage of all choices that have finished.
type Total struct {
	usage     codexrpc.Usage
	estimated bool // this server has estimated a part of the usage
}

// Add adds the usage of a choice to the total. out is the last output of the choice.
func (t *Total) Add(out *turn.Output) {
	t.usage, t.estimated = t.usage.Add(out.End.Usage), t.estimated || out.End.Estimated
}

// Usage returns the total in the form of the API.
func (t *Total) Usage() *Usage {
	u := t.usage
	w := &Usage{PromptTokens: u.InputTokens, CompletionTokens: u.OutputTokens, TotalTokens: u.TotalTokens, Estimated: t.estimated}
	w.PromptDetails.CachedTokens = u.CachedInputTokens
	w.PromptDetails.CacheWriteTokens = u.CacheWriteInputTokens
	w.CompletionDetails.ReasoningTokens = u.ReasoningOutputTokens
	return w
}
