package completions

import (
	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/chat"
	"github.com/caddy-codex/caddy-codex/internal/jsontext"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// Stream encodes the outputs of turns, one for each choice, as chunks: one for each piece
// of text, one with the finish_reason of each choice and, if asked for, one with the
// usage. It must not be used by several goroutines at once.
type Stream struct {
	emit      func(data []byte) error
	meta      Meta
	buf       []byte
	begun     []bool // by choice: the echo has been sent
	finished  []bool
	left      int // choices that have not finished
	usage     codexrpc.Usage
	estimated bool
	done      bool
	err       error // of emit
}

// NewStream returns an encoder that hands the JSON of each chunk to emit, without any
// framing. The slice is valid during the call only. The stream ends at the first error of
// emit.
func NewStream(meta Meta, emit func(data []byte) error) *Stream {
	return &Stream{emit: emit, meta: meta, begun: make([]bool, meta.Choices), finished: make([]bool, meta.Choices), left: meta.Choices}
}

// Write encodes one output of a choice. The error is that of emit. Outputs after a
// choice's last, or after a failure, are ignored.
func (s *Stream) Write(index int, out turn.Output) error {
	if s.done || s.err != nil || s.finished[index] {
		return s.err
	}
	switch out.Kind {
	case turn.OutputText:
		s.begin(index)
		s.text(index, out.Text)
	case turn.OutputFinish:
		s.begin(index)
		s.finish(index, &out)
	}
	return s.err
}

// begin sends the echo of a choice, once.
func (s *Stream) begin(index int) {
	if !s.begun[index] {
		s.begun[index] = true
		s.text(index, s.meta.Echo)
	}
}

func (s *Stream) text(index int, text string) {
	if text != "" {
		s.chunk(choice{text, index, null, nil})
	}
}

// finish ends a choice, and the stream with the last one.
func (s *Stream) finish(index int, out *turn.Output) {
	s.chunk(choice{"", index, null, &out.Finish})
	s.finished[index] = true
	s.usage, s.estimated = s.usage.Add(out.Usage), s.estimated || out.Estimated
	if s.left--; s.left > 0 {
		return
	}
	if s.meta.IncludeUsage {
		s.object(s.meta.completion([]choice{}, chat.NewUsage(s.usage, s.estimated)))
	}
	s.done = s.err == nil
}

// chunk sends a chunk of one choice.
func (s *Stream) chunk(c choice) {
	var usage any
	if s.meta.IncludeUsage {
		usage = null
	}
	s.object(s.meta.completion([]choice{c}, usage))
}

func (s *Stream) object(c completion) {
	s.buf = jsontext.Append(s.buf[:0], c)
	s.send(s.buf)
}

// send emits an object unless an earlier one failed.
func (s *Stream) send(data []byte) {
	if s.err == nil {
		s.err = s.emit(data)
	}
}

// Fail ends the stream with an error object. The error is that of emit.
func (s *Stream) Fail(e *apierror.Error) error {
	if !s.done {
		s.done = true
		s.send(e.Body())
	}
	return s.err
}

// Done reports whether the last chunk has been written, so that "[DONE]" is due.
func (s *Stream) Done() bool { return s.done }
