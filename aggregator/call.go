package aggregator

import (
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/jsontext"
)

// source is where the argument text of a call comes from, the most trusted source last. A
// complete text replaces text from a lesser source only.
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

// fits reports whether an event with this name, or none, can be about the call.
func (c *call) fits(name string) bool { return name == "" || c.name == "" || c.name == name }

// delta returns the changes since the last delta. Arguments and Fragment are views of the
// buffer, whose bytes do not change.
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

// dropProvisional forgets the rendered arguments.
func (c *call) dropProvisional(s *choiceState) {
	s.room += len(c.provisional)
	c.provisional = ""
}

// replace discards the arguments, before others are written. It leaves the buffer to the
// views of it.
func (c *call) replace(s *choiceState) {
	s.room += c.args.Len()
	c.args = strings.Builder{}
	c.replaced = c.emitted > 0
	c.emitted, c.head, c.truncated = 0, callHead{}, false
}

// callHead records the heads of a call: the chat deltas that have its name. The package
// documentation says which are fragments. Until that is known, equal heads right behind the
// first one are counted, and what they brought is added when a head differs. A fragment
// without a head, or the end of the call, shows that they were repetitions.
type callHead struct {
	seen     bool
	repeats  bool // each head is a fragment
	at, size int  // the place of the first head's text in the arguments
	equal    int  // heads equal to the first one, while nothing shows what they are
}

// newHead reports whether the text of a head is a fragment that is to be appended
// to the call, and not a repetition.
func (in *ingestion) newHead(s *choiceState, c *call, text jsontext.String) bool {
	h := &c.head
	if !h.seen {
		// A call that already has a name and a text is known from another shape.
		fresh := c.name == "" || c.source == sourceNone
		h.seen = true
		if fresh {
			plain, _ := text.CutHalf()
			h.at, h.size = c.args.Len(), len(plain.String())
		}
		return fresh
	}
	if in.opts.positioned || h.repeats {
		return true
	}
	first := c.args.String()[h.at:min(h.at+h.size, c.args.Len())]
	if plain, _ := text.CutHalf(); plain.String() == first {
		if c.args.Len() == h.at+h.size && !c.done {
			h.equal++
		}
		return false
	}
	h.repeats = true
	for ; h.equal > 0 && !c.truncated; h.equal-- {
		c.grow(jsontext.Plain(first), s)
	}
	return true
}

// keyKind is the kind of identity that a backend gives a call.
type keyKind uint8

const (
	keyCallID keyKind = iota // call_id, callId, a chat tool call's id
	keyItemID                // id of a Responses item
	keyOutput                // output_index of a Responses item
	keyOwnID                 // the id that this package gave out
	keySlot                  // place in a chat delta: index, or legacySlot
	keyHead                  // place and name in a chat delta without id
	keyBlock                 // place and name of a block in a message's text, and the message's id
)

// key is one way to name a call.
type key struct {
	kind  keyKind
	text  string
	place int
}

// namedKey is the key of a call that shares its id with one of another name.
func namedKey(kind keyKind, id, name string) key {
	return key{kind: kind, text: id + "\x00" + name, place: 1}
}

// choiceState holds the calls of one choice.
type choiceState struct {
	index   int
	calls   []*call // those with a name, in the order in which it became known
	created int     // calls with and without a name
	keys    map[key]*call
	last    *call // the one created last
	room    int   // bytes of arguments that may still be kept

	structured int    // calls that are not textual
	position   uint64 // highest position given to IngestEvent
}

// byID finds the call of an id and a name. Without a name the id stands for the
// call that was named last.
func (s *choiceState) byID(kind keyKind, id, name string) *call {
	if id == "" {
		return nil
	}
	c := s.keys[key{kind: kind, text: id}]
	if c == nil || c.fits(name) {
		return c
	}
	return s.keys[namedKey(kind, id, name)]
}

// placed returns the call at a place in the order of creation, for events that identify
// their call by nothing else. Such an event never means a call made from text.
func (s *choiceState) placed(slot int) *call {
	place := max(slot, 0)
	if place >= len(s.calls) || s.calls[place].textual {
		return nil
	}
	return s.calls[place]
}
