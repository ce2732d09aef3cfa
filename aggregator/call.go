package aggregator

import (
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/jsontext"
)

// source is where the argument text of a call comes from, the most trusted source
// last. A complete text replaces text from a lesser source only, so the result does not
// depend on the order in which the versions of a call arrive, nor on repetitions.
type source uint8

const (
	sourceNone    source = iota
	sourceParsed         // JSON that Codex rendered from the parsed arguments
	sourceStream         // fragments
	sourceMessage        // a complete text: a message, an arguments.done event
	sourceItem           // the complete item as the model's response holds it
)

// noSequence is the number of an event that has none.
const noSequence = -1

// call is one tool call of a choice.
type call struct {
	ordinal   int    // place among the named calls; -1 before there is a name
	id        string // tool_<choice>_<ordinal>[_<rand>]; empty before
	backendID string
	itemID    string // of the Responses item; empty while none is known
	name      string
	textual   bool // made from a block of text

	args        strings.Builder
	source      source
	half        jsontext.String // the first half of a surrogate pair at the end of the last fragment
	provisional string          // rendered arguments, while no text is known
	sequence    int64           // the highest number of an event seen
	head        callHead
	begun       bool // a Responses item announced it
	done        bool
	truncated   bool

	emitted  int  // bytes of args that deltas have carried
	replaced bool // args was replaced since the last delta
}

// fits reports whether an event that has a name, or none, can be about the call.
func (c *call) fits(name string) bool { return name == "" || c.name == "" || c.name == name }

// announced reports whether a delta has announced the call.
func (c *call) announced() bool { return c.ordinal >= 0 }

// dirty reports whether the call has a change that was in no delta.
func (c *call) dirty() bool { return c.replaced || c.emitted < c.args.Len() }

// delta returns the changes since the last delta. Arguments and Fragment are views of
// the buffer. Its bytes do not change: text is only appended, and a replacement uses a
// new buffer.
func (c *call) delta(choice int, first bool) Delta {
	text := c.args.String()
	d := Delta{
		Choice: choice, Index: c.ordinal, ID: c.id, Type: CallType, BackendID: c.backendID,
		Name: c.name, Arguments: text, Fragment: text[c.emitted:],
		First: first, Replaced: c.replaced, Done: c.done,
	}
	c.emitted, c.replaced = len(text), false
	return d
}

// record returns the call as it stands.
func (c *call) record(choice int) Record {
	r := Record{
		ID: c.id, Type: CallType, Function: Function{Name: c.name, Arguments: c.args.String()},
		Choice: choice, Index: c.ordinal, BackendID: c.backendID,
		Done: c.done, Truncated: c.truncated, Provisional: c.source == sourceParsed,
	}
	if c.source == sourceNone && c.provisional != "" {
		r.Function.Arguments, r.Provisional = c.provisional, true
	}
	return r
}

// grow appends a fragment as far as the choice has room for it. The first half of a
// surrogate pair at its end waits for the next one.
func (c *call) grow(text jsontext.String, s *choiceState) (whole bool) {
	if c.provisional != "" {
		c.dropProvisional(s)
	}
	if c.half.Size() > 0 {
		text, c.half = c.half.Join(text), jsontext.String{}
	}
	text, half := text.CutHalf()
	if half.Size() > 0 {
		c.half = half
	}
	before := c.args.Len()
	whole = text.AppendTo(&c.args, s.room)
	s.room -= c.args.Len() - before
	if !whole {
		c.truncated = true
	}
	if c.source < sourceStream {
		c.source = sourceStream
	}
	return whole
}

// end completes the arguments: a half of a surrogate pair that still waits for the
// other one becomes U+FFFD.
func (c *call) end(s *choiceState) {
	c.done = true
	if c.half.Size() > 0 {
		c.grow(jsontext.Plain(""), s)
	}
}

// dropProvisional forgets the rendered arguments.
func (c *call) dropProvisional(s *choiceState) {
	s.room += len(c.provisional)
	c.provisional = ""
}

// settle sets the complete text of the call. It reports whether that changed the call,
// and whether the text contradicts the text before.
func (c *call) settle(text string, from source, s *choiceState) (changed, conflict bool) {
	c.half = jsontext.String{}
	have := c.args.String()
	if text == have || text == "" || c.truncated && strings.HasPrefix(text, have) {
		c.source = max(c.source, from)
		return false, false
	}
	if from <= c.source {
		return false, true
	}
	rest, longer := strings.CutPrefix(text, have)
	if !longer {
		conflict = true
		c.replace(s)
		rest = text
	}
	c.source = from
	c.grow(jsontext.Plain(rest), s)
	return true, conflict
}

// replace discards the arguments, before others are written. It leaves the buffer to the
// views of it.
func (c *call) replace(s *choiceState) {
	s.room += c.args.Len()
	c.args = strings.Builder{}
	c.replaced = c.emitted > 0
	c.emitted, c.head, c.truncated = 0, callHead{}, false
}
