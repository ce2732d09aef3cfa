package aggregator

// legacySlot is the place of delta.function_call and message.function_call, beside the
// indexes of tool_calls. A message has at most one.
const legacySlot = -1

// callHead records the heads of a call: the chat deltas that have its name. The package
// documentation says which are fragments. Until that is known, equal heads right after the first
// one are counted. When a head differs, the text of the counted ones is added. A fragment without a
// head, or the end of the call, shows that they were repetitions.
type callHead struct {
	seen     bool
	repeats  bool // each head is a fragment
	at, size int  // the place of the first head's text in the arguments
	equal    int  // heads equal to the first one, while nothing shows what they are
}

// findEntry finds the call of an entry of a chat delta or of a message. An entry with an id means
// the call with that id; if several share it, the one at the entry's place. An entry with only a
// name means the call with that name at that place. If there is none, it means the call at the
// place, by the index or the order of creation, unless that call has another name, or both have an
// id.
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

// placed returns the call at a place in the order of the calls, for entries that identify their
// call in no other way. Such an entry never means a call made from text.
func (c *Choice) placed(slot int) *call {
	at := max(slot, 0)
	if at >= len(c.calls) || c.calls[at].textual {
		return nil
	}
	return c.calls[at]
}

// readHead drops the text of a head that is only repeated. A fragment without a name shows that the
// backend does not send the head with every fragment.
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

// newHead reports whether the text of a head is a fragment that is to be appended
// to the call, and not a repetition.
func (c *Choice) newHead(made *call, in *Input) bool {
	h, plain := &made.head, ""
	plain, _ = cutHigh(in.Text)
	if !h.seen {
		// A call that already has a name and a text is known from another shape.
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
		return true // too late
	}
	h.repeats = true
	for ; h.equal > 0 && !made.truncated; h.equal-- {
		made.grow(first, c)
	}
	return true
}
