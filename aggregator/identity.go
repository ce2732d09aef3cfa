package aggregator

import (
	"cmp"
	"slices"
)

type placeKind uint8

const (
	placeOutput placeKind = iota + 1 // output_index of a Responses item
	placeSlot                        // index of a chat entry, or legacySlot
	placeBlock                       // offset of a block in the text of a message
	placeHead                        // index of a chat entry with a name and without an id
)

// place is the position of a call, as an event gives it; zero: the event gives none.
type place struct {
	kind  placeKind
	index int
	text  string // of a block: the id of its message and the name of its tool; of a head: the name
}

type keyKind uint8

const (
	keyID         keyKind = iota // the id of a call: call_id, callId, or the id of a chat tool call
	keyItem                      // the id of an item of a Responses stream
	keyRawItem                   // the id of an item of a Responses stream, in a message of the app-server
	keyThreadItem                // the id of the app-server's own item
	keyKinds
)

// key is an id that a backend gives to calls.
type key struct {
	kind keyKind
	text string
}

// idCalls are the calls that share an id, in the order of their creation: backends may repeat ids.
type idCalls struct {
	id      string
	calls   []*callState
	memory  [1]*callState // the memory of the slice calls while it has one element
	current *callState    // the call for inputs without a name: it has the last name that came with this id
}

// find returns the call that an input is about, or nil if the call is new. It looks for the id of the item,
// then for the id of the call, then for the place. An input with none of these is about the last call, if
// this call is structured and not complete. Calls that contradict the input are skipped: see isCompatible
// and pickCall.
func (c *Choice) find(in *Input) *callState {
	switch {
	case in.isChatEntry:
		return c.findChatEntry(in)
	case in.fromText:
		return c.callsByPlace[in.place]
	}
	if found, known := c.findByItem(in); known {
		return found
	}
	if found, known := c.findByID(in); known {
		return found
	}
	if found := c.callsByPlace[in.place]; found != nil && c.isCompatible(found, in) && (in.ID == "" || found.backendID() == "") {
		return found
	}
	if last := c.lastCall; in.isAnonymous() && last != nil && !last.done && !last.fromText && last.matchesName(in.Name) {
		return last
	}
	return nil
}

func (in *Input) id(kind keyKind) string {
	switch kind {
	case keyID:
		return in.ID
	case keyThreadItem:
		return in.ThreadItem
	}
	if in.raw == (kind == keyRawItem) {
		return in.Item
	}
	return ""
}

// findByItem finds the call of an input by the ids of its items. If known is true and found is nil,
// the input is about a new call. If known is false, these ids do not decide which call it is.
func (c *Choice) findByItem(in *Input) (found *callState, known bool) {
	for kind := keyItem; kind < keyKinds && !known; kind++ {
		found, known = c.pickCall(c.callsByID[key{kind, in.id(kind)}], in)
	}
	return found, known
}

// findByID finds the call of an input by the id of the call or, if the input has none, by the id of the
// app-server's item: Codex gives both the same value. The results are as in findByItem.
func (c *Choice) findByID(in *Input) (found *callState, known bool) {
	id := cmp.Or(in.ID, in.ThreadItem)
	if found, known = c.pickCall(c.callsByID[key{keyID, id}], in); !known {
		found, known = c.pickCall(c.callsByID[key{keyThreadItem, id}], in)
	}
	return found, known
}

// pickCall picks the input's call of those that share an id. There are three results:
//   - found is the call.
//   - found is nil and known is true: the input is about a new call with the same id, since the
//     calls that share the id already have other complete arguments.
//   - known is false: no call has the id, or the input contradicts all that have it, for example by
//     its name. Another id of the input may find the call.
func (c *Choice) pickCall(sharing *idCalls, in *Input) (found *callState, known bool) {
	if sharing == nil {
		return nil, false
	}
	if in.completeKind() == completeNone {
		return c.pickWithoutText(sharing, in)
	}
	for _, other := range sharing.calls {
		switch {
		case !c.isCompatible(other, in) || in.list > 0 && other.lastList == in.list: // another call
		case other.receivedText(in):
			return other, true
		case found == nil && other.completeHashes[in.completeKind()] == (textHash{}): // the call has no such text yet
			found = other
		default:
			known = true
			if found == nil && in.list > 0 && !in.isChatEntry {
				found = other // a Response lists all its items again; this one has other arguments
			}
		}
	}
	return found, known || found != nil
}

// pickWithoutText is pickCall for an input without a complete text. Of the compatible calls, it prefers the
// call at the input's place, then, if the input has no name, sharing.current, then the first.
func (c *Choice) pickWithoutText(sharing *idCalls, in *Input) (found *callState, known bool) {
	if placed := c.callsByPlace[in.place]; placed != nil && c.isCompatible(placed, in) && slices.Contains(sharing.calls, placed) {
		return placed, true
	}
	if in.Name == "" && sharing.current != nil && c.isCompatible(sharing.current, in) {
		return sharing.current, true
	}
	for _, other := range sharing.calls {
		if c.isCompatible(other, in) {
			return other, true
		}
	}
	return nil, false
}

// isCompatible reports whether an input may be about a call: ids, names and places do not conflict.
func (c *Choice) isCompatible(found *callState, in *Input) bool {
	sameItem := false // if true, the places may differ: an item may have another place in another response
	for kind := keyItem; kind < keyKinds; kind++ {
		if id, known := in.id(kind), found.backendIDs[kind]; id != "" && known != "" {
			if id != known {
				return false
			}
			sameItem = true
		}
	}
	return found.matchesName(in.Name) && (sameItem || in.lacksPlace() || found.place.kind != in.place.kind || found.place == in.place)
}

// lacksPlace reports whether an input's place does not identify a call: there is no place, or the input is
// a chat entry without an index, whose place is only its number in the list.
func (in *Input) lacksPlace() bool { return in.place == place{} || in.isChatEntry && !in.hasIndex }

// create makes a call for an input. The call is not shown yet. It returns nil if there is no room for the
// name, the ids and the place of the input: a call gets all of them or none.
func (c *Choice) create(in *Input) *callState {
	size := len(in.Name)
	for kind := range keyKinds {
		if id := in.id(kind); id != "" {
			size += len(id) + keySize
		}
	}
	if in.place != (place{}) {
		size += len(in.place.text) + keySize
	}
	if in.isHead() {
		size += len(in.Name) + keySize
	}
	if c.lastCall = nil; size > c.keyRoom {
		return nil // with lastCall nil, an anonymous input changes no earlier call
	}
	c.lastCall = &callState{ordinal: -1, fromText: in.fromText}
	return c.lastCall
}

// isHead reports whether the input is a chat entry that its name and index identify.
func (in *Input) isHead() bool { return in.isChatEntry && in.Name != "" && in.ID == "" }

// bindAll makes the input's ids and place refer to a call. isNew: the call was made for this input.
func (c *Choice) bindAll(call *callState, in *Input, isNew bool) {
	for kind := range keyKinds {
		c.bindID(call, in, kind)
	}
	if in.isChatEntry && in.Name == "" && !isNew {
		return // the call was found by the entry's place or id; no place is added
	}
	if !in.lacksPlace() {
		call.place = in.place
	}
	c.bindPlace(call, in.place)
	if in.isHead() {
		c.bindPlace(call, place{placeHead, in.place.index, call.name})
	}
}

// bindID makes the input's id of a kind refer to a call, if there is room.
func (c *Choice) bindID(call *callState, in *Input, kind keyKind) {
	id := in.id(kind)
	if id == "" || kind == keyThreadItem && id == call.backendIDs[keyID] {
		return // if both ids are equal, findByID finds the call by the first
	}
	sharing := c.callsByID[key{kind, id}]
	switch {
	case sharing == nil:
		stored, ok := c.keep(id, 1)
		if !ok {
			return
		}
		if c.callsByID == nil {
			c.callsByID = make(map[key]*idCalls)
		}
		sharing = &idCalls{id: stored}
		sharing.calls = append(sharing.memory[:0], call)
		c.callsByID[key{kind, stored}] = sharing
	case sharing.current != call && !slices.Contains(sharing.calls, call):
		if _, ok := c.keep("", 1); !ok {
			return
		}
		sharing.calls = append(sharing.calls, call)
	}
	if sharing.current == nil || in.Name != "" && sharing.current.name != in.Name {
		sharing.current = call
	}
	if call.backendIDs[kind] == "" {
		call.backendIDs[kind] = sharing.id
	}
}

// bindPlace makes a place refer to a call, if there is room. It replaces an earlier call at this place.
func (c *Choice) bindPlace(call *callState, at place) {
	if at == (place{}) || c.callsByPlace[at] == call {
		return
	}
	if c.callsByPlace == nil {
		c.callsByPlace = make(map[place]*callState)
	}
	if c.callsByPlace[at] == nil {
		text, ok := c.keep(at.text, 1)
		if !ok {
			return
		}
		at.text = text
	}
	c.callsByPlace[at] = call
}
