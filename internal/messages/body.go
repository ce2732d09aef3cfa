package messages

import "strings"

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
