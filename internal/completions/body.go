package completions

import (
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/chat"
	"github.com/caddy-codex/caddy-codex/internal/jsontext"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// Body folds the outputs of turns, one for each choice, into a body.
type Body struct {
	meta    Meta
	choices []bodyChoice
	total   chat.Total
}

// bodyChoice is a choice so far.
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
