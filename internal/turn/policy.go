package turn

import (
	"encoding/json"
	"strings"

	"github.com/caddy-codex/caddy-codex/aggregator/usetool"
)

// maxTail bounds the text that waits for its fate, in bytes. Text above it
// goes out: better a tail too many than memory without end.
const maxTail = 1 << 20

// policy decides what of a turn's text and calls the client gets: it is a
// filter between what the model said and the outputs. It looks at the order of
// texts and calls alone, never at how they were cut into deltas.
type policy struct {
	opts   *Options
	calls  *calls
	report *Report
	put    func(Output)

	tail   strings.Builder // text whose fate is open
	flows  bool            // text goes out until the next call: the tail outgrew its bound, or has a block in it
	spoken bool            // something visible was said since the start or the last call
	open   bool            // the text holds a block without an end, and no call behind it
}

// text takes the next piece of text.
func (p *policy) text(text string) {
	switch {
	case text == "":
	case p.suppressing(), p.blankWaits() && isBlank(text):
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

// gap parts two messages. For a client of items it is nothing but the end of
// one, unless text of both is held: that is one text by then.
func (p *policy) gap(text string) {
	switch {
	case text == "":
	case !p.opts.Items || p.tail.Len() > 0:
		p.text(text)
	case !p.suppressing():
		p.put(Output{Kind: OutputText, Gap: true})
	}
}

// phase ends a message for a client of items, and says what it was. Of text that
// is held nobody is told.
func (p *policy) phase(phase string) {
	if p.opts.Items && phase != "" && p.tail.Len() == 0 && !p.suppressing() {
		p.put(Output{Kind: OutputText, Gap: true, Phase: strings.Clone(phase)})
	}
}

// suppressing reports whether text is held until it is known that another call
// follows.
func (p *policy) suppressing() bool {
	return p.opts.suppressTail() && p.calls.count > 0 && !p.flows
}

// blankWaits reports whether white space is held: in ModeJSON blocks leave the
// text, and the lines between them should not stay behind as content. Whether
// it belongs to a text is not known before that text has come.
func (p *policy) blankWaits() bool {
	return p.opts.textual() && !p.opts.xml() && !p.spoken && !p.flows
}

func (p *policy) speak(text string) {
	p.spoken = p.spoken || !isBlank(text)
	p.put(Output{Kind: OutputText, Text: text})
}

// release lets the held text go out.
func (p *policy) release() {
	if p.tail.Len() > 0 {
		text := p.tail.String()
		p.tail.Reset()
		p.speak(text)
	}
}

// givenUp prepares for the text of a begun block that is no call. Such a block
// is no tail: a client may run it, and the model meant it to be. So the text
// before it goes out, as before a call, and so does all text up to the next
// call, of which a client may read a part as the rest of the block. In ModeXML
// it is a call too many for a turn that has all of its calls.
func (p *policy) givenUp(reason usetool.AbortReason) {
	if p.opts.xml() && p.full() {
		p.report.Truncated = true
		return
	}
	p.release()
	p.flows = true
	p.open = reason == usetool.AbortUnclosed || reason == usetool.AbortTooLarge
}

// full reports whether the client has as many calls as it may get.
func (p *policy) full() bool { return p.calls.count >= p.opts.limit() }

// call takes the next call. It reports whether the client got it.
func (p *policy) call(call *candidate) bool {
	full := p.full()
	if p.calls.duplicate(call, full) {
		p.report.Duplicates++
		return false
	}
	if full {
		p.report.Truncated = true
		return false
	}
	first := p.calls.count == 0
	outputs := p.calls.outputs(call)
	if len(outputs) == 0 {
		return false
	}
	p.beforeCall(first)
	if p.opts.xml() {
		p.putBlock(call)
	}
	for _, o := range outputs {
		p.put(o)
	}
	p.report.Calls = p.calls.count
	p.spoken, p.flows, p.open = false, false, false
	return true
}

// beforeCall lets out the text before a call, and what parts two blocks.
func (p *policy) beforeCall(first bool) {
	blank := !p.spoken && isBlank(p.tail.String())
	if blank && !p.opts.xml() {
		p.tail.Reset()
	}
	p.release()
	if blank && p.opts.xml() && !first && p.opts.ToolBlockDelimiter != "" {
		p.put(Output{Kind: OutputText, Text: p.opts.ToolBlockDelimiter})
	}
}

// putBlock puts out a call as text. A client reads a block without an end up to
// the end of the next one, so that one which is made here gets that end before it.
func (p *policy) putBlock(call *candidate) {
	if p.open && !call.textual() {
		p.put(Output{Kind: OutputText, Text: "</use_tool>"})
	}
	p.put(Output{Kind: OutputText, Text: p.block(call)})
}

// block is a call as text: the model's own block, else one made of the call. A
// call that no block can hold is told of instead, in words that no client runs.
func (p *policy) block(call *candidate) string {
	if call.textual() {
		return call.block
	}
	xml, err := usetool.RenderXML(call.name, call.arguments, usetool.WithEscaping(p.opts.XMLEscape))
	if err != nil {
		p.report.Unwritable++
		return "[The call of " + quoted(call.name) + " cannot be written as a block. Its arguments: " + quoted(call.arguments) + "]"
	}
	return xml
}

// quoted is a text as a JSON string without angle brackets, so that nothing in
// it can be taken for a block.
func quoted(text string) string {
	quoted, _ := json.Marshal(text) // a string always encodes
	return string(quoted)
}

// end decides about the text that is still held.
func (p *policy) end() {
	drop := p.calls.count > 0 && (p.opts.suppressTail() && !p.flows || !p.opts.xml() && isBlank(p.tail.String()))
	if drop {
		p.report.TailBytes += p.tail.Len()
		p.tail.Reset()
	}
	p.release()
}

// isBlank reports whether a text shows nothing.
func isBlank(text string) bool { return strings.TrimSpace(text) == "" }
