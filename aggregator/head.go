package aggregator

// legacySlot is the index given to delta.function_call and message.function_call, which carry no
// index. The entries of tool_calls have indexes from 0. A message has at most one function_call.
const legacySlot = -1

// callHead records the heads of a call: chat deltas with the call's name. A later head is a fragment of the
// arguments or a repetition of the first head (see the package documentation). callHead counts the later
// heads that equal the first head and follow it directly. If a later head differs from the first, the
// counted heads were fragments, and their text is added. If a fragment without a name, or the end of the
// call, comes earlier, the counted heads were repetitions.
type callHead struct {
	seen         bool // the first head has come
	areFragments bool // a later head differed: all heads are fragments
	start, size  int  // offset and size of the first head's text in the arguments
	equalHeads   int  // heads equal to the first one, while it is not known whether they are fragments
}

// findChatEntry finds the call that an entry of a chat delta or of a message is about.
//   - An entry with an id is about the call with this id. If several calls share the id, it is
//     about the call at the entry's place (its index).
//   - An entry with a name and no id is about the call of the earlier entry without an id that had
//     the same name and index.
//   - If these rules do not decide, the entry is about the call at its place. If there is no such
//     call, or that call has another name, the entry is about the structured call whose ordinal is the
//     entry's index. The result is nil if this call also has another name, or if the call and the
//     entry both have an id.
func (c *Choice) findChatEntry(in *Input) *callState {
	found := c.callsByPlace[in.place]
	if in.Name == "" && found != nil && found.backendID() == in.ID { // a further fragment of this call
		return found
	}
	if in.ID != "" {
		if found, known := c.findByID(in); known {
			return found
		}
	} else if in.Name != "" {
		if found := c.callsByPlace[place{placeHead, in.place.index, in.Name}]; found != nil {
			return found
		}
	}
	if found == nil || !found.matchesName(in.Name) {
		found = nil
		if at := max(in.place.index, 0); at < len(c.calls) && !c.calls[at].fromText { // legacySlot counts as 0
			found = c.calls[at]
		}
	}
	if found == nil || !found.matchesName(in.Name) || in.ID != "" && found.backendID() != "" {
		return nil
	}
	return found
}

// dropRepeatedHead drops the text of a head that repeats the first. A delta without a name shows that heads do
// not come with every fragment: those counted until then were repetitions, and the count begins anew.
func (c *Choice) dropRepeatedHead(call *callState, in *Input) {
	switch {
	case in.Source != SourceFragment:
	case in.Name != "":
		if !c.isFragmentHead(call, in) {
			in.Source = SourceNone
		}
	case in.Text != "":
		call.head.equalHeads = 0
	}
}

// isFragmentHead reports whether a head's text has to be appended to the arguments, since the head is no
// repetition. If the head shows that earlier heads were fragments, isFragmentHead appends their text.
func (c *Choice) isFragmentHead(call *callState, in *Input) bool {
	h := &call.head
	text, _ := cutFirstHalf(in.Text) // such a half is not added to the arguments yet
	if !h.seen {
		// If an event of another shape has given the call a name and a text, the head adds nothing.
		adds := !call.isShown() || call.source == SourceNone
		h.seen = true
		if adds {
			h.start, h.size = call.args.Len(), len(text)
		}
		return adds
	}
	if in.hasPosition || h.areFragments { // with a position, a head is no repetition
		return true
	}
	first := call.args.String()[h.start:min(h.start+h.size, call.args.Len())]
	if text == first {
		if call.args.Len() == h.start+h.size && !call.done { // no other text has come
			h.equalHeads++
		}
		return false
	}
	if call.done {
		return true // addFragment will count it as late
	}
	h.areFragments = true
	for ; h.equalHeads > 0; h.equalHeads-- {
		call.appendFragment(first, c)
	}
	return true
}
