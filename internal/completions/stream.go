package completions

import (
	"github.com/caddy-codex/caddy-codex/internal/chat"
	"github.com/caddy-codex/caddy-codex/internal/jsontext"
	"github.com/caddy-codex/caddy-codex/internal/scratch"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// Stream encodes the outputs of turns, one for each choice, as chunks: one for each piece
// of text, one with the finish_reason of each choice and, if asked for, one with the
// usage. It must not be used by several goroutines at once.
type Stream struct {
	chat.Emitter
	meta  Meta
	buf   scratch.Buffer
	begun []bool // by choice: the echo has been sent
}

// NewStream returns an encoder that hands the JSON of each chunk to emit, without any
// framing. The slice is valid during the call only. The stream ends at the first error of
// emit.
func NewStream(meta Meta, emit func(data []byte) error) *Stream {
	return &Stream{Emitter: chat.NewEmitter(meta.Choices, emit), meta: meta, begun: make([]bool, meta.Choices)}
}

// Write encodes one output of a choice. The error is that of emit. Outputs after a
// choice's last, or after a failure, are ignored.
func (s *Stream) Write(index int, out turn.Output) error {
	if s.Over(index) {
		return s.Err()
	}
	switch out.Kind {
	case turn.OutputText:
		s.begin(index)
		s.text(index, out.Text)
	case turn.OutputFinish:
		s.begin(index)
		s.finish(index, &out)
	}
	return s.Err()
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
	var usage func(*chat.Usage) []byte
	if s.meta.IncludeUsage {
		usage = func(u *chat.Usage) []byte { return jsontext.Append(nil, s.meta.completion([]choice{}, u)) }
	}
	s.Finish(index, out, usage)
}

func (s *Stream) chunk(c choice) {
	var usage any
	if s.meta.IncludeUsage {
		usage = null
	}
	chunk := jsontext.Append(s.buf.Take(), s.meta.completion([]choice{c}, usage))
	s.buf.Keep(chunk)
	s.Send(chunk)
}

// Idle gives back the memory that only writing needs.
func (s *Stream) Idle() { s.buf.Release() }
