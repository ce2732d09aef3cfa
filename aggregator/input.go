package aggregator

import (
	"crypto/sha256"
	"strings"
)

// Input is the content of an event about one call, in the same form for all shapes of events.
// Fields for which the event has no value stay empty. A Choice copies the strings that it keeps.
type Input struct {
	ID         string // the backend's id of the call (Codex: call_id, callId)
	Item       string // the id of the model's item (Codex: the id of the raw item)
	ThreadItem string // the id of the app-server's item, which is used if ID is not known
	Name       string // of the function
	Text       string // the arguments: a fragment if Source is SourceFragment, otherwise all of them
	Source     Source // SourceNone: the event has no arguments
	Done       bool   // the call is complete

	raw      bool // Item is the id of a raw item of the app-server
	place    place
	sequence int64 // the number of the event plus 1; a repetition has the same number; 0: no number
	begun    bool  // the event announces an item
	whole    wholeKind
	round    uint64            // identifies the list with this call: equal calls of one list are two calls; 0: no list
	summary  bool              // the list repeats items that came before
	head     bool              // an entry of a chat delta, or of a message: see callHead
	fixed    bool              // the entry has an index
	sum      [sha256.Size]byte // of Text, computed when it is needed; zero: not computed
	position bool              // the event has a position, so that an equal head is a new fragment
}

// nameless reports whether the input has no name, no id and no place to find its call by.
func (in *Input) nameless() bool {
	return in.ID == "" && in.Item == "" && in.ThreadItem == "" && in.place == place{} && in.Name == ""
}

// Call applies an input about a structured call. It appends the parts that are certain now to out,
// and returns out. An input that changes nothing adds no part.
func (c *Choice) Call(in Input, out []Part) []Part {
	c.deltas = c.deltas[:0]
	in.asRaw()
	return c.take(&in, out)
}

// Repeats reports whether an earlier input of the same kind has given the call the same complete
// arguments. Call ignores such an input.
func (c *Choice) Repeats(in Input) bool {
	in.asRaw()
	found := c.find(&in)
	return found != nil && found.gave(&in)
}

// Knows reports whether an input is about a call that has come before.
func (c *Choice) Knows(in Input) bool {
	in.asRaw()
	return c.find(&in) != nil
}

// Ended reports whether an input is about a call that is complete.
func (c *Choice) Ended(in Input) bool {
	in.asRaw()
	found := c.find(&in)
	return found != nil && found.done
}

// asRaw marks the item of an input as a raw item of the app-server.
func (in *Input) asRaw() {
	if in.raw = true; in.Source == SourceItem {
		in.whole = wholeRaw
	}
}

// take finds or makes the call that an input is about, and applies the input to this call.
func (c *Choice) take(in *Input, out []Part) []Part {
	made := c.find(in)
	fresh := made == nil
	if fresh {
		if c.says(in) {
			made = c.create(in)
		}
		if made == nil {
			return out
		}
	}
	made.round = in.round
	named := made.name == "" && in.Name != ""
	if named {
		name, ok := c.keep(in.Name)
		if !ok {
			return c.refuse(made, out)
		}
		made.name = name
	}
	c.bindAll(made, in, fresh)
	if in.head {
		c.readHead(made, in)
	}
	return c.apply(made, in, named, out)
}

// apply applies an input to a call. named is true if this input has given the call its name. An
// input that changes nothing counts as a duplicate.
func (c *Choice) apply(made *call, in *Input, named bool, out []Part) []Part {
	wasCut, news := made.truncated, false
	switch in.Source {
	case SourceFragment:
		news = c.fragment(made, in)
	case SourceParsed, SourceText, SourceItem:
		news = c.complete(made, in)
		made.note(in)
	}
	made.sequence = max(made.sequence, in.sequence)
	made.begun = made.begun || in.begun
	ended := in.Done && !made.done
	if ended {
		made.done = true
		made.endHalf(c)
	}
	if !named && !news && !ended {
		c.stats.Duplicates++
		return out
	}
	out = c.show(made, out)
	if made.truncated && !wasCut && made.shown() {
		out = append(out, Part{Kind: PartOverLimit})
	}
	return out
}

// fragment appends the next part of the arguments. A part whose number was seen is a repetition. A
// part without a number always counts, since two parts may have equal text. fragment returns false
// for a repetition or an empty part. For a part that it refuses it returns true, and counts the
// refusal.
func (c *Choice) fragment(made *call, in *Input) bool {
	if in.Text == "" || in.sequence > 0 && in.sequence <= made.sequence {
		return false
	}
	if made.source == SourceParsed && !made.done {
		made.replace(c)
		made.source = SourceNone
	}
	switch {
	case made.done:
		c.stats.Late++
	case made.truncated || !made.grow(in.Text, c):
		c.stats.OverLimit++
	}
	made.source = max(made.source, SourceFragment)
	return true
}

// complete sets the complete text of a call. It returns false if the text adds nothing to what the
// call has. It returns true if the text changed the call, and also if complete refused and counted
// it.
func (c *Choice) complete(made *call, in *Input) bool {
	made.half = ""
	have, wasCut := made.args.String(), made.truncated
	switch {
	case in.Source == SourceParsed && (made.source != SourceNone || made.truncated || in.Text == ""):
		return false
	case in.Source == SourceParsed && len(in.Text) > c.room:
		made.truncated = true // a part of the JSON would be invalid
		c.stats.OverLimit++
		return true
	case in.Text == "", made.has(in):
		if in.Text != "" || made.source != SourceParsed {
			made.source = max(made.source, in.Source)
		}
		return false
	}
	rest, longer := strings.CutPrefix(in.Text, have)
	refused := in.Source <= made.source || c.opts.AppendOnly && !longer && made.emitted > 0
	if refused || !longer && made.source > SourceParsed {
		c.stats.Conflicts++
	}
	if refused {
		return true
	}
	made.part()
	if !longer {
		made.replace(c)
		rest = in.Text
	}
	made.source = in.Source
	made.head.equal = 0
	if !made.grow(rest, c) && !wasCut {
		c.stats.OverLimit++
	}
	made.endHalf(c)
	return true
}

// show appends the changes of a call since its last delta to out, and returns out. A call that is
// shown for the first time gets its ordinal and its id. show drops a call that repeats another one
// or is above the limit. It does nothing yet for a call that has no name, or for which mayRepeat is
// true.
func (c *Choice) show(made *call, out []Part) []Part {
	if made.name == "" || made.dropped {
		return out
	}
	first := !made.shown()
	if first {
		switch {
		case !made.done && c.mayRepeat(made):
			if !made.waits {
				made.waits = true
				c.waiting = append(c.waiting, made)
			}
			return out
		case made.done && c.repeats(made):
			return c.drop(made, PartDuplicate, out)
		case c.full():
			c.stats.OverLimit++
			return c.drop(made, PartOverLimit, out)
		}
		if !made.transient {
			c.unseen--
		}
		made.ordinal = len(c.calls)
		made.id = CallID(c.opts.Index, made.ordinal, c.opts.IDSuffix)
		c.calls = append(c.calls, made)
		c.runs.Made()
	} else if made.done && !made.ended {
		c.remember(made)
	}
	if !first && !made.replaced && made.emitted == made.args.Len() && made.ended == made.done {
		return out
	}
	c.deltas = append(c.deltas, made.delta(c.opts.Index, first))
	return append(out, Part{Kind: PartCall, Call: &c.deltas[len(c.deltas)-1]})
}

// End is called at the end of the turn. It marks all calls as complete, appends the parts for these
// changes to out, and returns out.
func (c *Choice) End(out []Part) []Part {
	c.deltas = c.deltas[:0]
	for _, list := range [][]*call{c.calls, c.waiting} {
		for _, made := range list {
			if !made.done {
				made.done = true
				made.endHalf(c)
				out = c.show(made, out)
			}
		}
	}
	c.waiting = nil
	return out
}

// drop keeps a call out of the choice, and appends a part of the given kind to out. The ids and
// places of the call stay, so that further inputs about the call are recognised.
func (c *Choice) drop(made *call, kind PartKind, out []Part) []Part {
	made.dropped = true
	if kind == PartDuplicate {
		c.stats.Duplicates++
	}
	return append(out, Part{Kind: kind})
}

// refuse drops a call for which there is no room.
func (c *Choice) refuse(made *call, out []Part) []Part {
	c.stats.OverLimit++
	if made.dropped {
		return out
	}
	return c.drop(made, PartOverLimit, out)
}

// says reports whether an input has enough to make a call. It refuses these inputs, and counts them
// in Stats: an input without a name, an id and a place; a nameless entry of a complete message; a
// chat delta without a name, an id and text.
func (c *Choice) says(in *Input) bool {
	switch {
	case in.Name != "":
	case in.head && !in.Done && in.ID == "" && in.Text == "":
		c.stats.Duplicates++
		return false
	case in.head && in.Done, in.nameless():
		c.stats.Malformed++
		return false
	}
	return true
}

// textCall makes a call of a block. A second block at the same place of a message is the same call;
// each block without a place is a call of its own.
func (c *Choice) textCall(at place, name, arguments string, out []Part) []Part {
	c.watchActions()
	in := Input{Name: name, Text: arguments, Source: SourceText, Done: true, place: at}
	made := c.places[at]
	if made == nil {
		made = c.create(&in)
		made.textual = true
		if made.name, _ = c.keep(name); made.name == "" {
			return c.refuse(made, out)
		}
		c.bindPlace(made, at)
		return c.apply(made, &in, true, out)
	}
	return c.apply(made, &in, false, out)
}
