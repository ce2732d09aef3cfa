package api

import (
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// Emit sends an event to the client. The event's type may be empty. Emit must not keep data.
type Emit func(event string, data []byte) error

// Encoder encodes the outputs of a request's turns as events or as one body of the same content.
// Most embed [Events] for Begin, Open, Idle and Done. It is not safe for concurrent use.
type Encoder interface {
	// Begin is called once, before all other methods. A nil emit means a body instead of events.
	Begin(emit Emit)
	// Open emits what comes before the first output. It is not called for a body.
	Open() error
	// Write encodes the next output of the choice with this index, from 0. The output is never a
	// failure. Write ignores outputs after the end of their choice, and after Fail. It returns the
	// error of emit, or an *apierror.Error for an output that the client cannot read.
	Write(choice int, out turn.Output) error
	// Fail ends the events with an error, unless they have ended. It returns emit's first error.
	Fail(apiErr *apierror.Error) error
	// Idle is called when all outputs that have come are written. It releases memory for writing.
	Idle()
	// Done reports whether the last event is emitted, or the body is complete.
	Done() bool
	// JSON returns the body. It is called when all choices have ended.
	JSON() []byte
}

// Answer is the answer to one request.
type Answer interface {
	Encoder
	// Form returns how the answer is written.
	Form() Form
	// NameFields is called with an error that names a field as in chat completions. It returns the error
	// with the name that the field has in the request.
	NameFields(apiErr *apierror.Error) *apierror.Error
}

// Form says how an answer is written.
type Form struct {
	// Ping is the data of the ping events that keep a stream alive. Nil: comments keep it alive.
	Ping []byte
	// Line is the line that keeps a stream of JSON lines alive. Nil: the stream has events, not lines.
	Line []byte
	// Counts adds a comment with the counts of the tool calls to the end of a stream.
	Counts bool
	// EndMark is the data of an event that ends a stream. Nil: there is none.
	EndMark []byte
	// Repeats says that the last event of a stream repeats the whole answer. So all outputs stay in
	// memory until then, and the gateway claims this memory.
	Repeats bool
	// Warmup says that the answer has no output, so the request needs no turn.
	Warmup bool
	// Partial says that the answer is useful even if some of its choices fail.
	Partial bool
}

// Events passes the events of an answer to emit, until emit fails. Encoders embed Events. The zero value
// is ready for Begin.
type Events struct {
	emit Emit            // nil: there are no events
	buf  wirejson.Buffer // memory for the event that is being written
	over bool            // the answer is complete, or has failed
	err  error           // the first error of emit
}

// Begin implements [Encoder].
func (e *Events) Begin(emit Emit) { e.emit = emit }

// Open implements [Encoder] for answers that begin with their first output.
func (*Events) Open() error { return nil }

// Idle implements [Encoder].
func (e *Events) Idle() { e.buf.Release() }

// Done implements [Encoder].
func (e *Events) Done() bool { return e.over && e.err == nil }

// Form implements [Answer] for answers without a special form.
func (*Events) Form() Form { return Form{} }

// NameFields implements [Answer] for requests whose conversation is in the field messages.
func (*Events) NameFields(apiErr *apierror.Error) *apierror.Error { return apiErr }

// Streams reports whether the answer is a stream of events. Otherwise it is one body.
func (e *Events) Streams() bool { return e.emit != nil }

// Silent reports whether no events are emitted: the answer is one body, or emit has failed.
func (e *Events) Silent() bool { return e.emit == nil || e.err != nil }

// Err returns the first error of emit.
func (e *Events) Err() error { return e.err }

// End records that the answer is complete.
func (e *Events) End() { e.over = true }

// Over reports whether the answer is complete or has failed.
func (e *Events) Over() bool { return e.over }

// Take returns empty memory in which the next event is built, see [Events.Send].
func (e *Events) Take() []byte { return e.buf.Take() }

// Send emits an event of a stream, whose data were built in the memory of [Events.Take]. It can be inlined.
func (e *Events) Send(event string, data []byte) {
	if e.buf.Keep(data); e.err == nil {
		e.err = e.emit(event, data)
	}
}

// Emit emits an event. It does nothing if the answer is one body, or if emit has failed.
func (e *Events) Emit(event string, data []byte) {
	if e.emit != nil && e.err == nil {
		e.err = e.emit(event, data)
	}
}

// Last ends the answer with an error's event, unless the answer is over. It returns emit's first error.
func (e *Events) Last(event string, data []byte) error {
	if !e.over {
		e.over = true
		e.Emit(event, data)
	}
	return e.err
}
