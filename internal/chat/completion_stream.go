package chat

import (
	"encoding/json"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// CompletionMeta has the data that all chunks of a stream share. The body of an answer that is not
// streamed has the same data.
type CompletionMeta struct {
	prompt.Settings        // Settings.Choices is at least 1
	ID              string // of the completion, for example "cmpl-…"
	Created         int64  // Unix time in seconds
	Echo            string // the beginning of each choice's text, see [CompletionRequest.Echo]
}

// textCompletion is the JSON of a whole answer or of one chunk of a stream. In OpenAI's API, both
// are a CreateCompletionResponse.
type textCompletion struct {
	ID      string       `json:"id"`
	Object  string       `json:"object"`
	Created int64        `json:"created"`
	Model   string       `json:"model"`
	Choices []textChoice `json:"choices"`
	Usage   any          `json:"usage,omitempty"` // in a body: a *Usage; in a chunk: a *Usage, null, or nil (the member is absent)
}

// textChoice is a choice of a body or of a chunk.
type textChoice struct {
	Text         string             `json:"text"`
	Index        int                `json:"index"`
	LogProbs     json.RawMessage    `json:"logprobs"` // always null
	FinishReason *turn.FinishReason `json:"finish_reason"`
}

func (m *CompletionMeta) append(dst []byte, choices []textChoice, usage any) []byte {
	return wirejson.Append(dst, textCompletion{m.ID, "text_completion", m.Created, m.Model, choices, usage})
}

// CompletionStream encodes the outputs of turns as chunks. The outputs of each turn become one
// choice: a chunk for each piece of text, and then a chunk with the finish_reason. If the client
// asks for the usage, the last chunk of the stream has the usage. A CompletionStream is not safe
// for concurrent use.
type CompletionStream struct {
	Emitter
	meta     CompletionMeta
	buf      wirejson.Buffer
	echoSent []bool // by choice: whether the echo has been sent, if there is one
}

// NewCompletionStream returns a stream that passes the JSON of each chunk to emit, without the
// framing of server-sent events. data is valid only during the call of emit. After the first error
// of emit, the stream emits nothing more.
func NewCompletionStream(meta CompletionMeta, emit func(data []byte) error) *CompletionStream {
	return &CompletionStream{Emitter: NewEmitter(meta.Choices, emit), meta: meta, echoSent: make([]bool, meta.Choices)}
}

// Write encodes an output of the choice with this index. Only text and turn.OutputFinish, the last
// output of a choice, become chunks. Write ignores outputs after turn.OutputFinish, and all outputs
// after a failure. It returns the first error of emit.
func (s *CompletionStream) Write(index int, out turn.Output) error {
	if s.IsClosed(index) || out.Kind != turn.OutputText && out.Kind != turn.OutputFinish {
		return s.Err()
	}
	if !s.echoSent[index] {
		s.echoSent[index] = true
		s.sendText(index, s.meta.Echo)
	}
	if out.Kind == turn.OutputText {
		s.sendText(index, out.Text)
		return s.Err()
	}
	s.sendChunk(textChoice{"", index, null, wirejson.OrNull(out.End.Finish)})
	var usage func(*Usage) []byte
	if s.meta.IncludeUsage {
		usage = func(u *Usage) []byte { return s.meta.append(nil, []textChoice{}, u) }
	}
	s.Finish(index, &out, usage)
	return s.Err()
}

func (s *CompletionStream) sendText(index int, text string) {
	if text != "" {
		s.sendChunk(textChoice{text, index, null, nil})
	}
}

func (s *CompletionStream) sendChunk(c textChoice) {
	var usage any
	if s.meta.IncludeUsage {
		usage = null
	}
	chunk := s.meta.append(s.buf.Take(), []textChoice{c}, usage)
	s.buf.Keep(chunk)
	s.Send(chunk)
}

// Idle releases the memory that is needed only during writing.
func (s *CompletionStream) Idle() { s.buf.Release() }

// CompletionBody collects the outputs of turns into a body. The outputs of each turn become one
// choice of the body.
type CompletionBody struct {
	meta    CompletionMeta
	texts   []strings.Builder
	choices []textChoice // without their texts
	total   Total
}

// NewCompletionBody returns an empty body.
func NewCompletionBody(meta CompletionMeta) *CompletionBody {
	b := &CompletionBody{meta: meta, texts: make([]strings.Builder, meta.Choices), choices: make([]textChoice, meta.Choices)}
	for i := range b.choices {
		b.texts[i].WriteString(meta.Echo)
		b.choices[i] = textChoice{Index: i, LogProbs: null}
	}
	return b
}

// Add adds an output of the choice with this index. It uses only text and turn.OutputFinish, the
// last output of a choice. It ignores outputs after turn.OutputFinish.
func (b *CompletionBody) Add(index int, out turn.Output) {
	switch c := &b.choices[index]; {
	case c.FinishReason != nil:
	case out.Kind == turn.OutputText:
		b.texts[index].WriteString(out.Text)
	case out.Kind == turn.OutputFinish:
		c.FinishReason = wirejson.OrNull(out.End.Finish)
		b.total.Add(&out)
	}
}

// JSON returns the body. The body is complete when all turns have ended without a failure.
func (b *CompletionBody) JSON() []byte {
	for i := range b.choices {
		b.choices[i].Text = b.texts[i].String()
	}
	return b.meta.append(nil, b.choices, b.total.Usage())
}
