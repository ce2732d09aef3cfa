package responses

import (
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// Stream encodes the outputs of a turn as the events of a streamed response
// (ResponseStreamEvent). Each has a type and a sequence_number, from 0 on without gaps:
//
//   - response.created and response.in_progress,
//   - for each item response.output_item.added, events of its type, and
//     response.output_item.done. A message has content parts and texts, reasoning the parts
//     and texts of its summary, a call its arguments.
//   - response.completed, response.incomplete or response.failed, with the whole Response.
//
// A Stream must not be used by several goroutines at once.
type Stream struct {
	fold
	emit     func(event string, data []byte) error
	buf      []byte // the event under way
	head     deltaHead
	sequence int64
	err      error // of emit
}

// NewStream returns an encoder that passes the name and the JSON of each event to emit,
// without any framing. The slice is valid during the call only. The stream ends at the
// first error of emit.
func NewStream(meta Meta, emit func(event string, data []byte) error) *Stream {
	s := &Stream{emit: emit, head: deltaHead{index: hidden}}
	s.fold = newFold(meta, s)
	return s
}

// Open writes the events before the first item.
func (s *Stream) Open() error {
	object := s.object()
	s.whole("response.created", object)
	s.whole("response.in_progress", object)
	return s.err
}

// Write encodes an output as any number of events. A response has one choice only. The
// error is that of emit. Outputs after the last are ignored.
func (s *Stream) Write(_ int, out turn.Output) error {
	if s.done || s.err != nil {
		return s.err
	}
	s.add(&out)
	s.end()
	return s.err
}

// Fail ends the response with an error. With [ErrCancelled] the response is cancelled.
// There is no event for that: it is a response.failed with a cancelled response.
func (s *Stream) Fail(e *apierror.Error) error {
	if s.done {
		return s.err
	}
	status := statusFailed
	if e == ErrCancelled {
		status = statusCancelled
	}
	s.fail(status, e)
	s.end()
	return s.err
}

// Done reports whether the last event has been written.
func (s *Stream) Done() bool { return s.done && s.err == nil }

// end writes the last event if the response has ended.
func (s *Stream) end() {
	if !s.done {
		return
	}
	object := s.keep()
	switch s.status {
	case statusCompleted:
		s.whole("response.completed", object)
	case statusIncomplete:
		s.whole("response.incomplete", object)
	default:
		s.whole(eventFailed, object)
	}
}
