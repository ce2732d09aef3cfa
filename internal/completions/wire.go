package completions

import (
	"encoding/json"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/chat"
	"github.com/caddy-codex/caddy-codex/internal/jsontext"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// Meta is what all chunks of a stream, and a body, have in common.
type Meta struct {
	ID      string // of the completion, for example "cmpl-…"
	Model   string // as the client named it
	Created int64  // Unix time in seconds
	// IncludeUsage adds the usage chunk to a stream. A body always has it.
	IncludeUsage bool
	Choices      int    // how many turns answer the request, at least 1
	Echo         string // that each choice begins with
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

func (m *Meta) completion(choices []choice, usage any) completion {
	return completion{m.ID, "text_completion", m.Created, m.Model, choices, usage}
}

// null is written where a member must be there without a value.
var null = json.RawMessage("null")

// Body folds the outputs of turns, one for each choice, into a body.
type Body struct {
	meta    Meta
	choices []bodyChoice
	total   chat.Total
}

type bodyChoice struct {
	text   strings.Builder
	finish turn.FinishReason // empty: it has not finished
}

// NewBody returns an empty body.
func NewBody(meta Meta) *Body {
	b := &Body{meta: meta, choices: make([]bodyChoice, meta.Choices)}
	for i := range b.choices {
		b.choices[i].text.WriteString(meta.Echo)
	}
	return b
}

// Add adds the next output of a choice. Outputs after a choice's last are ignored.
func (b *Body) Add(index int, out turn.Output) {
	c := &b.choices[index]
	switch {
	case c.finish != "":
	case out.Kind == turn.OutputText:
		c.text.WriteString(out.Text)
	case out.Kind == turn.OutputFinish:
		c.finish = out.Finish
		b.total.Add(&out)
	}
}

// JSON returns the body. It is complete once all turns have ended well.
func (b *Body) JSON() []byte {
	choices := make([]choice, len(b.choices))
	for i := range b.choices {
		choices[i] = choice{b.choices[i].text.String(), i, null, jsontext.OrNull(b.choices[i].finish)}
	}
	return jsontext.Append(nil, b.meta.completion(choices, b.total.Usage()))
}
