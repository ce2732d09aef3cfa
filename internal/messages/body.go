package messages

import (
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// Body folds the outputs of a turn into the body of a message that is not streamed. A client
// of [Stream] gets the same content from the same outputs.
type Body struct {
	fold
	blocks blocks
}

// NewBody returns an empty body.
func NewBody(meta Meta) *Body {
	b := &Body{fold: fold{meta: meta}}
	b.to = &b.blocks
	return b
}

// Add adds the next output. Outputs after the finish are ignored.
func (b *Body) Add(_ int, out turn.Output) {
	if !b.done {
		b.add(&out)
	}
}

// JSON returns the body. It is complete once the turn has ended well.
func (b *Body) JSON() []byte {
	content := []byte("[]")
	if b.blocks.all != nil {
		content = wirejson.Append(nil, b.blocks.all)
	}
	return b.meta.append(nil, content, b.blocks.ending, b.blocks.usage)
}

// blocks is the sink that collects the blocks of a body.
type blocks struct {
	all     []block
	written strings.Builder // the text of the last block
	ending  ending
	usage   usage
}

func (b *blocks) last() *block { return &b.all[len(b.all)-1] }

func (b *blocks) begin(begun block) { b.all = append(b.all, begun) }

func (b *blocks) text(piece string)     { b.written.WriteString(piece) }
func (b *blocks) thinking(piece string) { b.written.WriteString(piece) }
func (b *blocks) input(object string)   { b.last().Input = []byte(object) }
func (b *blocks) signature(text string) { b.last().Signature = &text }
func (b *blocks) cite(c citation)       { b.last().Citations = append(b.last().Citations, c) }

func (b *blocks) end() {
	if b.written.Len() == 0 {
		return
	}
	text := b.written.String()
	b.written.Reset()
	if last := b.last(); last.Thinking != nil {
		last.Thinking = &text
	} else {
		last.Text = &text
	}
}

func (b *blocks) finish(end ending, u usage) { b.ending, b.usage = end, u }
