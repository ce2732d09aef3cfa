package aggregator

import (
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/jsontext"
)

// ingestOptions control how one ingest reads its input.
type ingestOptions struct {
	message    bool // top-level calls are complete, not deltas
	synthesize bool
	positioned bool // the event has an identity, so that a repeated head is not taken for a repetition
}

// ingestion is the state of one ingest. It collects the deltas.
type ingestion struct {
	agg    *Aggregator
	opts   ingestOptions
	deltas []Delta
	calls  bool // a call was found in the input, whatever became of it
}

// choice is Aggregator.choice with the refusals counted.
func (in *ingestion) choice(index int) *choiceState {
	in.calls = true
	s := in.agg.choice(index)
	switch {
	case s != nil:
	case index < 0:
		in.agg.stats.Malformed++
	default:
		in.agg.stats.OverLimit++
	}
	return s
}

// update is the change of one call by one event, independent of the event's shape.
type update struct {
	name string
	text jsontext.String // the arguments: a fragment, or the whole if from is complete
	from source          // sourceNone: the event brings no arguments
	done bool

	begun  bool // the event announces a Responses item
	callID string
	itemID string
	output int // -1: none
	slot   int // of a chat call: its index, or its place in the array, or legacySlot

	sequence int64 // noSequence: none
}

// noPlace is an update without the place of its item and without a number.
var noPlace = update{output: -1, sequence: noSequence}

// apply applies an update to a call and emits the delta. An update that changes nothing
// counts as a duplicate.
func (in *ingestion) apply(s *choiceState, c *call, u *update) {
	named := c.name == "" && u.name != ""
	if named {
		c.name = strings.Clone(u.name)
	}
	news := false
	switch u.from {
	case sourceStream:
		news = in.fragment(s, c, u)
	case sourceParsed:
		news = in.rendered(s, c, u)
	case sourceMessage, sourceItem:
		news = in.whole(s, c, u.text.String(), u.from)
	}
	c.sequence = max(c.sequence, u.sequence)
	c.begun = c.begun || u.begun
	ended := u.done && !c.done
	if ended {
		c.done = true
		if c.half.Size() > 0 { // which has no other half: it becomes U+FFFD
			c.grow(jsontext.Plain(""), s)
		}
	}
	if !named && !news && !ended {
		in.agg.stats.Duplicates++
	}
	in.emit(s, c)
}

// fragment appends the next part of the arguments. A part whose number was seen is a
// repetition. A part without a number always counts, since equal text does not make two
// parts the same. It reports whether the part changed the call, or was refused and counted.
func (in *ingestion) fragment(s *choiceState, c *call, u *update) bool {
	switch {
	case u.text.Size() == 0, u.sequence != noSequence && u.sequence <= c.sequence:
		return false
	case c.done:
		in.agg.stats.Late++
	case c.truncated || !c.grow(u.text, s):
		in.agg.stats.OverLimit++
	}
	return true
}

// whole sets the complete text of a call. It reports the same as fragment.
func (in *ingestion) whole(s *choiceState, c *call, text string, from source) bool {
	c.half = jsontext.String{}
	have, wasCut := c.args.String(), c.truncated
	if text == have || text == "" || wasCut && strings.HasPrefix(text, have) {
		c.source = max(c.source, from)
		return false
	}
	rest, longer := strings.CutPrefix(text, have)
	if !longer || from <= c.source {
		in.agg.stats.Conflicts++
	}
	if from <= c.source {
		return true
	}
	if !longer {
		c.replace(s)
		rest = text
	}
	c.source = from
	if !c.grow(jsontext.Plain(rest), s) && !wasCut {
		in.agg.stats.OverLimit++
	}
	return true
}

// rendered keeps arguments that Codex parsed and wrote again. Until the text of the model
// comes, snapshots show them. Deltas have them only if the call is complete and no text
// was seen. It reports the same as fragment.
func (in *ingestion) rendered(s *choiceState, c *call, u *update) bool {
	if c.source != sourceNone || c.truncated {
		return false
	}
	if c.provisional == "" && u.text.Size() > 0 {
		if u.text.Size() > s.room {
			c.truncated = true
			in.agg.stats.OverLimit++
			return true
		}
		c.provisional = strings.Clone(u.text.Raw())
		s.room -= len(c.provisional)
	}
	if !u.done {
		return false
	}
	text := c.provisional
	c.dropProvisional(s)
	return in.whole(s, c, text, sourceParsed)
}

// emit appends the delta of a call that has a name and a change. The call gets its
// ordinal and its id when its name becomes known.
func (in *ingestion) emit(s *choiceState, c *call) {
	if c.name == "" {
		return
	}
	first := c.ordinal < 0
	if !first && !c.replaced && c.emitted == c.args.Len() {
		return
	}
	if first {
		c.ordinal = len(s.calls)
		c.id = CallID(s.index, c.ordinal, in.agg.cfg.suffix)
		s.calls = append(s.calls, c)
		in.bind(s, c, key{kind: keyOwnID, text: c.id})
	}
	in.deltas = append(in.deltas, c.delta(s.index, first))
}

// create adds a call to a choice, made from text or not; nil if the choice is full.
func (in *ingestion) create(s *choiceState, textual bool) *call {
	if s.created >= in.agg.cfg.maxCalls {
		in.agg.stats.OverLimit++
		return nil
	}
	c := &call{ordinal: -1, sequence: noSequence, textual: textual}
	s.created++
	s.last = c
	if !textual {
		s.structured++
	}
	return c
}

// bind makes a key name a call, instead of any other, if there is room. The text is cloned:
// a view would keep its whole event in memory.
func (in *ingestion) bind(s *choiceState, c *call, k key) {
	if s.keys[k] == nil {
		if len(s.keys) >= keysPerCall*in.agg.cfg.maxCalls {
			in.agg.stats.OverLimit++
			return
		}
		k.text = strings.Clone(k.text)
	}
	s.keys[k] = c // a key that is in the map keeps its own text
}

// bindCallID binds a call id to a call with a name. The first one becomes the BackendID
// of the call.
func (in *ingestion) bindCallID(s *choiceState, c *call, id, name string) {
	if id == "" {
		return
	}
	if c.backendID == "" {
		c.backendID = strings.Clone(id)
	}
	in.bindID(s, c, keyCallID, id, name)
}

// bindID binds an id of the backend to a call with a name. If two calls with different
// names have the same id, the id alone means the call that an event named last, and each
// call is also bound to the id together with its name.
func (in *ingestion) bindID(s *choiceState, c *call, kind keyKind, id, name string) {
	k := key{kind: kind, text: id}
	known := s.keys[k]
	if known == nil || known == c {
		in.bind(s, c, k)
		return
	}
	if known.fits(name) {
		return // the id stays with the first call that had it
	}
	named := namedKey(kind, id, name)
	if first := s.keys[named]; first != nil {
		c = first
	}
	in.bind(s, known, namedKey(kind, id, known.name))
	in.bind(s, c, named)
	in.bind(s, c, k)
}

// echo reports whether an id was made by this package and is not an id of the backend.
// An event with such an id was made from a snapshot and adds nothing.
func (in *ingestion) echo(s *choiceState, id string) bool {
	if id == "" || s.keys[key{kind: keyCallID, text: id}] != nil || s.keys[key{kind: keyOwnID, text: id}] == nil {
		return false
	}
	in.agg.stats.Duplicates++
	return true
}
