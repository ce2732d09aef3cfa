package aggregator

// legacySlot is the index given to delta.function_call and message.function_call, which carry no
// index. The entries of tool_calls have indexes from 0. A message has at most one function_call.
const legacySlot = -1

// callHead records the heads of a call: the chat deltas that contain its name. Each head after the
// first one is either a fragment of the arguments or a repetition, see the package documentation.
// At first nobody knows which, so callHead counts the heads that equal the first one and come right
// after it. If a later head differs, the counted heads were fragments, and their text is added to
// the arguments. If a fragment without a name or the end of the call comes first, they were
// repetitions.
type callHead struct {
	seen     bool
	repeats  bool // each head is a fragment
	at, size int  // the place of the first head's text in the arguments
	equal    int  // heads equal to the first one, while nothing shows what they are
}

// findEntry finds the call that an entry of a chat delta or of a message is about.
//   - An entry with an id is about the call with this id. If several calls share the id, it is about
//     the one at the entry's place (its index).
//   - An entry with a name and no id is about the call of the earlier entry without an id that had
//     the same name and index.
//   - Any other entry is about the call at its place. If there is none with a fitting name, it is
//     about the call whose ordinal is the entry's index. findEntry returns nil if that call has
//     another name, or if both the call and the entry have an id.
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

// placed returns the call whose ordinal is slot, the index of an entry; legacySlot counts as 0. It
// is used for entries that do not identify their call by an id or a name. It returns nil for a call
// made from text.
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
		// If an event of another shape has already given the call a name and a text, this head adds
		// nothing.
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
