package messages

import (
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// Body collects the outputs of a turn in the body of a message that is not streamed. From the same
// outputs, [Stream] makes events with the same content.
type Body struct {
	encoder
	blocks blockCollector
}

// NewBody returns an empty body.
func NewBody(meta Meta) *Body {
	b := &Body{encoder: encoder{meta: meta}}
	b.sink = &b.blocks
	return b
}

// Add adds the next output. It ignores outputs after turn.OutputFinish, the last output of a turn.
func (b *Body) Add(_ int, out turn.Output) {
	if !b.done {
		b.add(&out)
	}
}

// JSON returns the body. The body is complete when the turn has ended without an error.
func (b *Body) JSON() []byte {
	content := []byte("[]")
	if b.blocks.list != nil {
		content = wirejson.Append(nil, b.blocks.list)
	}
	return b.meta.append(nil, content, b.blocks.ending, b.blocks.usage)
}

// blockCollector is the [blockSink] that collects the blocks of a body.
type blockCollector struct {
	list     []block
	lastText strings.Builder // the text or the thinking of the block that has begun and not ended
	ending   ending
	usage    usage
}

func (b *blockCollector) last() *block { return &b.list[len(b.list)-1] }

func (b *blockCollector) beginBlock(next block) { b.list = append(b.list, next) }

func (b *blockCollector) addText(piece string)     { b.lastText.WriteString(piece) }
func (b *blockCollector) addThinking(piece string) { b.lastText.WriteString(piece) }
func (b *blockCollector) addInput(object string)   { b.last().Input = []byte(object) }
func (b *blockCollector) addSignature(text string) { b.last().Signature = &text }
func (b *blockCollector) addCitation(c citation)   { b.last().Citations = append(b.last().Citations, c) }

func (b *blockCollector) endBlock() {
	if b.lastText.Len() == 0 {
		return
	}
	text := b.lastText.String()
	b.lastText.Reset()
	if last := b.last(); last.Thinking != nil {
		last.Thinking = &text
	} else {
		last.Text = &text
	}
}

func (b *blockCollector) finish(end ending, u usage) { b.ending, b.usage = end, u }
