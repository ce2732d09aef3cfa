package turn

import (
	"encoding/json"
	"strings"

	"github.com/caddy-codex/caddy-codex/aggregator"
	"github.com/caddy-codex/caddy-codex/aggregator/usetool"
)

// maxWithheld bounds the withheld text, in bytes. Longer text is sent, even after the last call.
const maxWithheld = 1 << 20

// policy decides which text and calls the client gets, between the scanner, which finds the calls, and the
// outputs. It may withhold text until it knows whether a call follows. Its decisions depend only on the
// order of text and calls, not on where a delta ends.
type policy struct {
	opts   *Options
	report *Report
	out    *emitter // gets the text and calls for the client

	withheld    strings.Builder // text that was not sent yet
	passThrough bool            // no text is withheld until the next call, since the withheld text or a block was too large
	sendUntil   int64           // text before this offset is not withheld
	visibleSent bool            // visible text was sent since the last call, or since the start if there was no call
	blockOpen   bool            // since the last call, the text has a block without an end
}

// isClosed reports whether the client gets only the first call, and already has it.
func (p *policy) isClosed() bool { return p.report.Calls > 0 && p.opts.StopAfterTools == StopFirst }

// addText sends or withholds text, or drops it if p is closed.
func (p *policy) addText(text string) {
	switch {
	case text == "":
	case p.isClosed():
		p.report.TailBytes += len(text)
	case p.withholdsTail(), p.withholdsBlank() && isBlank(text):
		p.withheld.WriteString(text)
		if p.withheld.Len() > maxWithheld {
			p.sendWithheld()
			p.passThrough = true
		}
	default:
		if p.withheld.Len() > 0 { // asked here, since each delta comes here
			p.sendWithheld()
		}
		p.sendText(text)
	}
}

// addTextAt processes text that begins at an offset. Text before p.sendUntil is a block that is not
// a call, or precedes such a block. It is never withheld: it is sent, or dropped if p is closed.
func (p *policy) addTextAt(text string, offset int64) {
	if n := int(min(max(0, p.sendUntil-offset), int64(len(text)))); n > 0 {
		if p.isClosed() {
			p.report.TailBytes += n
		} else {
			p.sendWithheld()
			p.sendText(text[:n])
		}
		text = text[n:]
	}
	p.addText(text)
}

// addGap processes the boundary between two messages, unless p is closed. For a client that reads one text,
// or while text is withheld, the separator becomes text. Otherwise, a client that reads items gets an
// output with Gap, unless text after the last call is withheld and nothing visible was sent since the call.
func (p *policy) addGap(text string) {
	switch {
	case p.isClosed():
	case !p.opts.Items || p.withheld.Len() > 0:
		p.addText(text)
	case p.visibleSent || !p.withholdsTail():
		p.out.emit(Output{Kind: OutputText, Gap: true})
	}
}

// endMessage ends a message of a phase (see [Output]) for a client that reads items. It does
// nothing without a phase, while text is withheld, or if the client gets no more text.
func (p *policy) endMessage(phase string) {
	if p.opts.Items && phase != "" && p.withheld.Len() == 0 && (p.visibleSent || !p.withholdsTail()) && !p.isClosed() {
		p.out.emit(Output{Kind: OutputText, Gap: true, Phase: phase})
	}
}

// withholdsTail reports whether text is withheld because it may be the text after the last call.
func (p *policy) withholdsTail() bool {
	return p.report.Calls > 0 && p.opts.suppressTail() && !p.passThrough
}

// withholdsBlank reports whether white space is withheld until visible text follows: ModeJSON removes
// blocks, and without this the client would get the line breaks between them.
func (p *policy) withholdsBlank() bool {
	return !p.visibleSent && p.opts.findsBlocks() && !p.opts.writesBlocks() && !p.passThrough
}

func (p *policy) sendText(text string) {
	p.visibleSent = p.visibleSent || !isBlank(text)
	p.out.emit(Output{Kind: OutputText, Text: text})
}

func (p *policy) sendWithheld() {
	if text := p.withheld.String(); text != "" {
		p.withheld.Reset()
		p.sendText(text)
	}
}

// blockAborted prepares for the text of a block that is no call. The block and the withheld text before it
// are sent, even after a call: a client may run the block. After a block that was too large, all text is
// sent until the next call: it may be the block's end. A tag that is only mentioned in prose counts as
// prose.
func (p *policy) blockAborted(part *aggregator.Part) {
	if p.isClosed() {
		return
	}
	if part.Pattern == "" {
		p.blockOpen = part.Reason == usetool.AbortUnclosed || part.Reason == usetool.AbortTooLarge
	}
	if part.Reason == usetool.AbortUnclosed && part.Pattern == "" && usetool.IsProse(part.Block) {
		return
	}
	p.sendWithheld()
	p.sendUntil = part.Offset + int64(len(part.Block))
	p.passThrough = p.passThrough || part.Reason == usetool.AbortTooLarge
}

func (p *policy) sendCall(part *aggregator.Part) {
	call := part.Call
	p.sendBeforeCall(call.Index == 0)
	if p.opts.writesBlocks() {
		p.emitBlock(part)
	}
	p.out.emit(Output{Kind: OutputCall, Call: call.Index, ID: call.ID, Name: call.Name, Text: call.Arguments})
	p.report.Calls++
	p.visibleSent, p.passThrough, p.blockOpen = false, false, false
}

// sendBeforeCall sends the withheld text before a call. In ModeJSON it drops this text if it is blank and
// no visible text was sent since the last call. In ModeXML it adds the delimiter between adjacent blocks.
func (p *policy) sendBeforeCall(isFirst bool) {
	blank := !p.visibleSent && isBlank(p.withheld.String())
	if blank && !p.opts.writesBlocks() {
		p.withheld.Reset()
	}
	p.sendWithheld()
	if blank && p.opts.writesBlocks() && !isFirst && p.opts.ToolBlockDelimiter != "" {
		p.out.emit(Output{Kind: OutputText, Text: p.opts.ToolBlockDelimiter})
	}
}

// emitBlock sends a call as text: the model's own block, a new one or, if that is impossible, a sentence about it. If an
// earlier block has no end, its end comes before a new block, since a client would read the two as one block.
func (p *policy) emitBlock(part *aggregator.Part) {
	text := part.Text
	if text == "" {
		var err error
		call := part.Call
		if text, err = usetool.RenderXML(call.Name, call.Arguments, p.opts.XMLEscape); err != nil {
			p.report.Unwritable++
			text = "[The call of " + quoted(call.Name) + " cannot be written as a block. Its arguments: " + quoted(call.Arguments) + "]"
		}
		if p.blockOpen {
			p.out.emit(Output{Kind: OutputText, Text: "</use_tool>"})
		}
	}
	p.out.emit(Output{Kind: OutputText, Text: text})
}

// quoted returns text as a JSON string without angle brackets: clients find no block in it.
func quoted(text string) string {
	quoted, _ := json.Marshal(text) // a string always encodes
	return string(quoted)
}

// end sends the withheld text at the end of the turn. But after a call, it drops the text if the options
// suppress the tail (except with passThrough) and, in ModeJSON, if the text is white space.
func (p *policy) end() {
	drop := p.report.Calls > 0 && (p.opts.suppressTail() && !p.passThrough || !p.opts.writesBlocks() && isBlank(p.withheld.String()))
	if drop {
		p.report.TailBytes += p.withheld.Len()
		p.withheld.Reset()
	}
	p.sendWithheld()
}

func isBlank(text string) bool { return strings.TrimSpace(text) == "" }
