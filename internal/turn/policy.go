package turn

import (
	"encoding/json"
	"strings"

	"github.com/caddy-codex/caddy-codex/aggregator"
	"github.com/caddy-codex/caddy-codex/aggregator/usetool"
)

// maxTail is the most bytes of text that the policy withholds. It sends longer text, even if that
// is text after the last call.
const maxTail = 1 << 20

// policy decides which of a turn's text and calls the client gets. It is a filter between the
// scanner, which finds the calls, and the outputs. It may hold text until it knows whether another
// call follows. Its decisions depend only on the order of text and calls, not on how the model's
// answer was cut into deltas.
type policy struct {
	opts   *Options
	report *Report
	out    *emitter // gets what the client gets

	tail   strings.Builder   // text that is held
	flows  bool              // until the next call no text is held, since the tail or a block was too large
	kept   int64             // the offset in the text up to which nothing is held
	spoken bool              // visible text was sent since the start or the last call
	later  []aggregator.Part // complete calls that wait for an earlier call
	ended  int               // calls that were sent to their end
	open   bool              // since the last call, the text has a block without an end
}

// closed reports whether the client has its first call and gets no more.
func (p *policy) closed() bool { return p.opts.StopAfterTools == StopFirst && p.ended > 0 }

// text processes the next piece of text.
func (p *policy) text(text string) {
	switch {
	case text == "":
	case p.closed():
		p.report.TailBytes += len(text)
	case p.suppressing(), p.holdsBlank() && isBlank(text):
		p.tail.WriteString(text)
		if p.tail.Len() > maxTail {
			p.release()
			p.flows = true
		}
	default:
		p.release()
		p.speak(text)
	}
}

// textAt processes text that begins at an offset. Text before p.kept is a block that is not a call,
// or precedes such a block. Such text is sent at once.
func (p *policy) textAt(text string, offset int64) {
	if n := int(min(max(0, p.kept-offset), int64(len(text)))); n > 0 {
		if p.closed() {
			p.report.TailBytes += n
		} else {
			p.release()
			p.speak(text[:n])
		}
		text = text[n:]
	}
	p.text(text)
}

// gap processes the boundary between two messages. For a client that reads items, gap ends the
// first message. But if text of that message is held, both messages become one, with the argument
// text between them.
func (p *policy) gap(text string) {
	switch {
	case p.closed():
	case !p.opts.Items || p.tail.Len() > 0:
		p.text(text)
	case !p.suppressing():
		p.out.emit(Output{Kind: OutputText, Gap: true})
	}
}

// phase ends a message, for a client that reads items. The argument is the phase that the model
// gives the message: commentary or final_answer (see [Output]). Without a phase, while text of the
// message is withheld, or if the client gets no more text, phase does nothing.
func (p *policy) phase(phase string) {
	if p.opts.Items && phase != "" && p.tail.Len() == 0 && !p.suppressing() && !p.closed() {
		p.out.emit(Output{Kind: OutputText, Gap: true, Phase: phase})
	}
}

// suppressing reports whether text is held until another call follows.
func (p *policy) suppressing() bool {
	return p.opts.suppressTail() && p.report.Calls > 0 && !p.flows
}

// holdsBlank reports whether white space is held until visible text follows. In ModeJSON, blocks
// are removed from the text. If white space was not held, the client would get the line breaks
// between these blocks.
func (p *policy) holdsBlank() bool {
	return p.opts.textual() && !p.opts.xml() && !p.spoken && !p.flows
}

func (p *policy) speak(text string) {
	p.spoken = p.spoken || !isBlank(text)
	p.out.emit(Output{Kind: OutputText, Text: text})
}

// release sends the text that is held.
func (p *policy) release() {
	if p.tail.Len() > 0 {
		text := p.tail.String()
		p.tail.Reset()
		p.speak(text)
	}
}

// blockAborted prepares for the text of a block that is not a call. The block and the text before
// it are sent, even after a call, where other text may be dropped: the model meant the block as a
// call, and a client may run it. Text after the block may be withheld again. But if the block was
// too large, this text is sent as well, since it may be the end of the block. An opening tag that
// is only mentioned in prose stays a part of the prose.
func (p *policy) blockAborted(part *aggregator.Part) {
	if p.closed() {
		return
	}
	if part.Pattern == "" {
		p.open = part.Reason == usetool.AbortUnclosed || part.Reason == usetool.AbortTooLarge
	}
	if part.Reason == usetool.AbortUnclosed && part.Pattern == "" && usetool.IsProse(part.Block) {
		return
	}
	p.release()
	p.kept = part.Offset + int64(len(part.Block))
	p.flows = p.flows || part.Reason == usetool.AbortTooLarge
}

// call sends the new part of a call. ended reports whether that was the end of the call. In
// ModeXML, it sends a call only as a whole, after all calls that began earlier.
func (p *policy) call(part *aggregator.Part) (ended bool) {
	switch {
	case !p.opts.xml():
		return p.send(part)
	case !part.Call.Done:
		return false
	case part.Call.Index > p.ended:
		call, later := *part.Call, *part
		later.Call = &call
		p.later = append(p.later, later)
		return false
	}
	p.send(part)
	for i := 0; i < len(p.later); i++ {
		if p.later[i].Call.Index == p.ended {
			p.send(&p.later[i])
			i = -1
		}
	}
	return true
}

// send sends the new part of a call. It reports whether the call has ended.
func (p *policy) send(part *aggregator.Part) (ended bool) {
	call := part.Call
	if call.First || p.opts.xml() {
		p.begin(part)
	}
	text := call.Fragment
	if p.opts.xml() {
		text = call.Arguments
	}
	if text != "" {
		p.out.emit(Output{Kind: OutputCallArguments, Call: call.Index, ID: call.ID, Text: text})
	}
	if call.Done {
		p.ended++
		p.out.emit(Output{Kind: OutputCallEnd, Call: call.Index, ID: call.ID, Name: call.Name, Text: call.Arguments})
	}
	return call.Done
}

// begin sends the begin of a call, with the text before it.
func (p *policy) begin(part *aggregator.Part) {
	call := part.Call
	p.beforeCall(call.Index == 0)
	if p.opts.xml() {
		p.emitBlock(part)
	}
	p.out.emit(Output{Kind: OutputCallStart, Call: call.Index, ID: call.ID, Name: call.Name})
	p.report.Calls++
	p.spoken, p.flows, p.open = false, false, false
}

// beforeCall sends the withheld text before a call. If this text is white space, and no visible
// text has come since the last call, it is dropped in ModeJSON. In ModeXML it is sent, and then the
// delimiter between two blocks. first is true for the first call of the turn, before which there is
// no block.
func (p *policy) beforeCall(first bool) {
	blank := !p.spoken && isBlank(p.tail.String())
	if blank && !p.opts.xml() {
		p.tail.Reset()
	}
	p.release()
	if blank && p.opts.xml() && !first && p.opts.ToolBlockDelimiter != "" {
		p.out.emit(Output{Kind: OutputText, Text: p.opts.ToolBlockDelimiter})
	}
}

// emitBlock sends a call as text: the model's own block, or a new one. If an earlier block has no
// end, a client would read it and a new block as one. So emitBlock sends the missing end before a
// new block.
func (p *policy) emitBlock(part *aggregator.Part) {
	text := part.Text
	if part.Pattern != "" || text == "" || part.Rewrite {
		text = p.block(part.Call)
		if p.open {
			p.out.emit(Output{Kind: OutputText, Text: "</use_tool>"})
		}
	}
	p.out.emit(Output{Kind: OutputText, Text: text})
}

// block returns a call as a <use_tool> block. If the call cannot be written as a block, block
// returns a sentence about it, which no client runs as a call.
func (p *policy) block(call *aggregator.Delta) string {
	xml, err := usetool.RenderXML(call.Name, call.Arguments, p.opts.XMLEscape)
	if err != nil {
		p.report.Unwritable++
		return "[The call of " + quoted(call.Name) + " cannot be written as a block. Its arguments: " + quoted(call.Arguments) + "]"
	}
	return xml
}

// quoted returns a text as a JSON string without angle brackets, so that clients find no block in
// it.
func quoted(text string) string {
	quoted, _ := json.Marshal(text) // a string always encodes
	return string(quoted)
}

// end sends or drops the text that is held.
func (p *policy) end() {
	drop := p.report.Calls > 0 && (p.opts.suppressTail() && !p.flows || !p.opts.xml() && isBlank(p.tail.String()))
	if drop {
		p.report.TailBytes += p.tail.Len()
		p.tail.Reset()
	}
	p.release()
}

// isBlank reports whether a text is only white space.
func isBlank(text string) bool { return strings.TrimSpace(text) == "" }
