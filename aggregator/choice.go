package aggregator

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
