package aggregator

import "strings"

// keyKind says by what a backend names a call.
type keyKind uint8

const (
	keyCallID keyKind = iota // call_id, callId, a chat tool call's id
	keyItemID                // id of a Responses item
	keyOutput                // output_index of a Responses item
	keyOwnID                 // the id that this package gave out
	keySlot                  // place in a chat delta: index, or legacySlot
	keyHeader                // place and name in a chat delta without id
	keyBlock                 // place and name of a block in a message's text
)

// key is one way to name a call.
type key struct {
	kind  keyKind
	text  string
	place int
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

// lookup finds the call that a key names.
func (s *choiceState) lookup(kind keyKind, text string, place int) *call {
	return s.keys[key{kind: kind, text: text, place: place}]
}

// placed returns the call at a place in the order of creation, for what names its
// call by nothing else. A call made from text is never meant by it.
func (s *choiceState) placed(slot int) *call {
	place := max(slot, 0)
	if place >= len(s.calls) || s.calls[place].textual {
		return nil
	}
	return s.calls[place]
}

// bind makes a key name a call. Places are taken over by the newest call there; an
// id stays with the first call that had it, should a backend ever tell of one call
// as of two. The text is cloned: a view would keep its whole event in memory. It
// reports false if there is no room for the key.
func (s *choiceState) bind(c *call, kind keyKind, text string, place int, limit int) bool {
	k := key{kind: kind, text: text, place: place}
	known, exists := s.keys[k]
	if known == c || exists && kind != keySlot && kind != keyOutput {
		return true
	}
	if !exists {
		if len(s.keys) >= limit {
			return false
		}
		k.text = strings.Clone(text)
	}
	s.keys[k] = c
	return true
}
