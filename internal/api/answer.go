package api

import "github.com/caddy-codex/caddy-codex/internal/apierror"

// Answer is the answer to one request.
type Answer interface {
	Encoder
	// Form returns how the answer is written.
	Form() Form
	// NameFields returns an error with the request's own names of fields instead of chat completions'.
	NameFields(apiErr *apierror.Error) *apierror.Error
}

// Form says how an answer is written.
type Form struct {
	// Ping is the data of the ping events that keep a stream alive. Nil: comments do.
	Ping []byte
	// Line is the keepalive of a stream that has JSON lines instead of events. Nil: it has events.
	Line []byte
	// Counts adds a comment with the counts of the tool calls to the end of a stream.
	Counts bool
	// EndMark is the data of an event that ends a stream. Nil: there is none.
	EndMark []byte
	// Repeats says that the last event of a stream repeats the whole answer, so that memory has to be
	// claimed for all outputs.
	Repeats bool
	// Warmup says that the request needs no turn; its answer has no output.
	Warmup bool
	// Partial says that the answer is useful even if some of its choices fail.
	Partial bool
}
