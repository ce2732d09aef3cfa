package completions

import (
	"encoding/json"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/chat"
	"github.com/caddy-codex/caddy-codex/internal/jsontext"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/scratch"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// Meta is what all chunks of a stream, and a body, have in common.
type Meta struct {
	prompt.Settings        // Choices is at least 1
	ID              string // of the completion, for example "cmpl-…"
	Created         int64  // Unix time in seconds
	Echo            string // that each choice begins with
}

// completion is a CreateCompletionResponse, whole or a chunk of a stream.
type completion struct {
	ID      string   `json:"id"`
	Object  string   `json:"object"`
	Created int64    `json:"created"`
	Model   string   `json:"model"`
	Choices []choice `json:"choices"`
	Usage   any      `json:"usage,omitempty"` // in a stream as in chat completions
}

// choice is a choice of a body or of a chunk.
type choice struct {
	Text         string             `json:"text"`
	Index        int                `json:"index"`
	LogProbs     json.RawMessage    `json:"logprobs"` // always null
	FinishReason *turn.FinishReason `json:"finish_reason"`
}

func (m *Meta) append(dst []byte, choices []choice, usage any) []byte {
	return jsontext.Append(dst, completion{m.ID, "text_completion", m.Created, m.Model, choices, usage})
}

// null is written where a member must be there without a value.
var null = json.RawMessage("null")

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
	if s.Over(index) || out.Kind != turn.OutputText && out.Kind != turn.OutputFinish {
		return s.Err()
	}
	if !s.begun[index] {
		s.begun[index] = true
		s.text(index, s.meta.Echo)
	}
	if out.Kind == turn.OutputText {
		s.text(index, out.Text)
		return s.Err()
	}
	s.chunk(choice{"", index, null, jsontext.OrNull(out.Finish)})
	var usage func(*chat.Usage) []byte
	if s.meta.IncludeUsage {
		usage = func(u *chat.Usage) []byte { return s.meta.append(nil, []choice{}, u) }
	}
	s.Finish(index, &out, usage)
	return s.Err()
}

func (s *Stream) text(index int, text string) {
	if text != "" {
		s.chunk(choice{text, index, null, nil})
	}
}

func (s *Stream) chunk(c choice) {
	var usage any
	if s.meta.IncludeUsage {
		usage = null
	}
	chunk := s.meta.append(s.buf.Take(), []choice{c}, usage)
	s.buf.Keep(chunk)
	s.Send(chunk)
}

// Idle gives back the memory that only writing needs.
func (s *Stream) Idle() { s.buf.Release() }

// Body folds the outputs of turns, one for each choice, into a body.
type Body struct {
	meta    Meta
	texts   []strings.Builder
	choices []choice // without their texts
	total   chat.Total
}

// NewBody returns an empty body.
func NewBody(meta Meta) *Body {
	b := &Body{meta: meta, texts: make([]strings.Builder, meta.Choices), choices: make([]choice, meta.Choices)}
	for i := range b.choices {
		b.texts[i].WriteString(meta.Echo)
		b.choices[i] = choice{Index: i, LogProbs: null}
	}
	return b
}

// Add adds the next output of a choice. Outputs after a choice's last are ignored.
func (b *Body) Add(index int, out turn.Output) {
	switch c := &b.choices[index]; {
	case c.FinishReason != nil:
	case out.Kind == turn.OutputText:
		b.texts[index].WriteString(out.Text)
	case out.Kind == turn.OutputFinish:
		c.FinishReason = jsontext.OrNull(out.Finish)
		b.total.Add(&out)
	}
}

// JSON returns the body. It is complete once all turns have ended well.
func (b *Body) JSON() []byte {
	for i := range b.choices {
		b.choices[i].Text = b.texts[i].String()
	}
	return b.meta.append(nil, b.choices, b.total.Usage())
}
