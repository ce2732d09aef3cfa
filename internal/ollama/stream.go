package ollama

import (
	"time"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// Stream encodes the outputs of a turn as lines. Each line is an object with a piece of text, a
// piece of reasoning or a call. The last object has the usage and "done": true. If the turn fails,
// an object with only the error ends the stream. A Stream is not safe for concurrent use.
type Stream struct {
	meta Meta
	emit func(line []byte) error
	buf  wirejson.Buffer // memory for the line that is being written
	timings
	done bool
	err  error // the first error of emit
}

// NewStream returns a Stream that passes each line to emit, without its line break. emit must not
// keep line after it returns. The stream ends at the first error of emit.
func NewStream(meta Meta, emit func(line []byte) error) *Stream {
	return &Stream{meta: meta, emit: emit, timings: timings{arrived: meta.Arrived, started: time.Now()}}
}

// Write encodes an output as one line, or as none. The first argument is not used, since an answer
// has only one choice. Write returns the first error of emit, or an [apierror.Error] for a call
// whose arguments are not a JSON object. It ignores outputs after turn.OutputFinish, the last
// output of a turn, and outputs after a failure.
func (s *Stream) Write(_ int, out turn.Output) error {
	if s.done || s.err != nil {
		return s.err
	}
	if out.Kind == turn.OutputFinish {
		s.done = true
		now := time.Now()
		line := s.meta.appendStart(s.buf.Take(), new(piece), now)
		s.emitLine(s.meta.appendEnd(line, &out, &s.timings, now))
		return s.err
	}
	p, apiErr := s.meta.newPiece(&out)
	if apiErr != nil {
		return apiErr
	}
	if !p.isEmpty() {
		s.recordFirst()
		s.emitLine(append(s.meta.appendStart(s.buf.Take(), &p, time.Now()), `,"done":false}`...))
	}
	return s.err
}

// emitLine emits a line, which was built in the memory of buf.
func (s *Stream) emitLine(line []byte) {
	s.buf.Keep(line)
	if s.err == nil {
		s.err = s.emit(line)
	}
}

// Fail ends the stream with an error, unless the stream has already ended. It returns the first
// error of emit.
func (s *Stream) Fail(apiErr *apierror.Error) error {
	if !s.done {
		s.done = true
		s.emitLine(appendError(s.buf.Take(), apiErr))
	}
	return s.err
}

// Done reports whether the last line has been written without an error of emit.
func (s *Stream) Done() bool { return s.done && s.err == nil }

// Idle releases the memory that is needed only during writing.
func (s *Stream) Idle() { s.buf.Release() }

// Keepalive returns a line with an empty text, which changes nothing for the client.
func (m *Meta) Keepalive() []byte {
	return append(m.appendStart(nil, new(piece), m.Arrived), `,"done":false}`...)
}
