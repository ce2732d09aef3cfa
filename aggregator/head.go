package aggregator

// legacySlot is the index given to delta.function_call and message.function_call, which carry no
// index. The entries of tool_calls have indexes from 0. A message has at most one function_call.
const legacySlot = -1

// callHead records the heads of a call: the chat deltas that have its name. Each head after the
// first is a fragment or a repetition, see the package documentation. Until this is known, heads
// that equal the first one and come right after it are counted. When a head differs, the counted
// heads were fragments, and their text is added. A fragment without a name, or the end of the call,
// shows that they were repetitions.
type callHead struct {
	seen     bool
	repeats  bool // each head is a fragment
	at, size int  // the place of the first head's text in the arguments
	equal    int  // heads equal to the first one, while nothing shows what they are
}

// findEntry finds the call of an entry of a chat delta or of a message.
//   - An entry with an id means the call with this id. If several calls share the id, the entry
//     means the call at the entry's place (its index).
//   - An entry with a name and no id means the same call as an earlier entry without an id that had
//     the same name and index.
//   - Otherwise the entry means the call at its place, or else the call whose number in the order
//     of the calls is the entry's index. If that call has another name, or if the call and the
//     entry both have an id, findEntry returns nil.
func (c *Choice) findEntry(in *Input) *call {
	at := c.places[in.place]
	if in.Name == "" && at != nil && at.backend() == in.ID {
		return at
	}
	if in.ID != "" {
		if found, known := c.byID(in); known {
			return found
		}
	} else if in.Name != "" {
		if found := c.heads[headKey{in.Name, in.place.index}]; found != nil {
			return found
		}
	}
	if at == nil || !at.fits(in.Name) {
		at = c.placed(in.place.index)
	}
	if at == nil || !at.fits(in.Name) || in.ID != "" && at.backend() != "" {
		return nil
	}
	return at
}

// placed returns the call whose ordinal is slot, the index of an entry; legacySlot counts as 0. It is
// for entries that identify their call in no other way. It returns nil for a call made from text.
func (c *Choice) placed(slot int) *call {
	at := max(slot, 0)
	if at >= len(c.calls) || c.calls[at].textual {
		return nil
	}
	return c.calls[at]
}

// readHead drops the text of a head (a chat delta with the name of its call) that repeats the first
// head. A delta without the name shows that the backend does not send the name with every fragment.
// So readHead then forgets the heads counted so far: they were repetitions.
func (c *Choice) readHead(made *call, in *Input) {
	switch {
	case in.Source != SourceFragment:
	case in.Name != "":
		if !c.newHead(made, in) {
			in.Source = SourceNone
		}
	case in.Text != "":
		made.head.equal = 0
	}
}

// newHead reports whether the text of a head (a chat delta with the name of its call) has to be
// appended to the arguments. It returns false for a repetition.
func (c *Choice) newHead(made *call, in *Input) bool {
	h, plain := &made.head, ""
	plain, _ = cutHigh(in.Text)
	if !h.seen {
		// If an event of another shape has given the call a name and a text, the head adds nothing.
		fresh := !made.shown() || made.source == SourceNone
		h.seen = true
		if fresh {
			h.at, h.size = made.args.Len(), len(plain)
		}
		return fresh
	}
	if in.position || h.repeats {
		return true
	}
	first := made.args.String()[h.at:min(h.at+h.size, made.args.Len())]
	if plain == first {
		if made.args.Len() == h.at+h.size && !made.done {
			h.equal++
		}
		return false
	}
	if made.done {
		return true // fragment will count it as late
	}
	h.repeats = true
	for ; h.equal > 0 && !made.truncated; h.equal-- {
		made.grow(first, c)
	}
	return true
}
