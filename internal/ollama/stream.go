package ollama

import (
	"time"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// Stream encodes the outputs of a turn as lines: each piece of text or of reasoning, and each call,
// is an object of its own; the last object has done and the usage. A failure is an object with only
// the error, which ends the stream. A Stream must not be used by several goroutines at once.
type Stream struct {
	meta Meta
	emit func(line []byte) error
	buf  wirejson.Buffer // the line under way
	clock
	done bool
	err  error // of emit
}

// NewStream returns an encoder that passes each line to emit, without its line break. The slice is
// valid during the call only. The stream ends at the first error of emit.
func NewStream(meta Meta, emit func(line []byte) error) *Stream {
	return &Stream{meta: meta, emit: emit, clock: clock{arrived: meta.Arrived, begun: time.Now()}}
}

// Write encodes an output as a line or none. An answer has one choice only. It returns the error of
// emit, or an [apierror.Error] for a call whose arguments no client of this API can read. Outputs
// after the last are ignored.
func (s *Stream) Write(_ int, out turn.Output) error {
	if s.done || s.err != nil {
		return s.err
	}
	if out.Kind == turn.OutputFinish {
		s.done = true
		now := time.Now()
		line := s.meta.append(s.buf.Take(), new(piece), now)
		s.line(s.meta.appendEnd(line, &out, &s.clock, now))
		return s.err
	}
	p, apiErr := s.meta.read(&out)
	if apiErr != nil {
		return apiErr
	}
	if !p.empty() {
		s.note()
		s.line(append(s.meta.append(s.buf.Take(), &p, time.Now()), `,"done":false}`...))
	}
	return s.err
}

// line emits a line that was made in the memory of buf.
func (s *Stream) line(line []byte) {
	s.buf.Keep(line)
	if s.err == nil {
		s.err = s.emit(line)
	}
}

// Fail ends the stream with an error.
func (s *Stream) Fail(apiErr *apierror.Error) error {
	if !s.done {
		s.done = true
		s.line(appendError(s.buf.Take(), apiErr))
	}
	return s.err
}

// Done reports whether the last line has been written.
func (s *Stream) Done() bool { return s.done && s.err == nil }

// Idle gives back the memory that only writing needs.
func (s *Stream) Idle() { s.buf.Release() }

// Keepalive returns a line that changes nothing for its client: one without a text.
func (m *Meta) Keepalive() []byte {
	return append(m.append(nil, new(piece), m.Arrived), `,"done":false}`...)
}
