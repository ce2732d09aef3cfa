package aggregator

import "slices"

// placeKind is the kind of a place.
type placeKind uint8

const (
	placeOutput placeKind = iota + 1 // output_index of a Responses item
	placeSlot                        // index of a chat entry, or legacySlot
	placeBlock                       // offset of a block in the text of a message
)

// place is the position of a call, as an event gives it. The zero value means that the event gives
// no position.
type place struct {
	kind  placeKind
	index int
	text  string // of a block: the id of its message, and its name
}

// keyKind is the kind of an id.
type keyKind uint8

const (
	keyID         keyKind = iota // call_id, callId, the id of a chat tool call
	keyItem                      // the id of an item of a Responses stream
	keyRawItem                   // the id of the same item as the app-server passes it on
	keyThreadItem                // the id of the app-server's own item
	keyKinds
)

// key is an id that a backend gives to calls.
type key struct {
	kind keyKind
	text string
}

// headKey is the name and the index of a chat entry without an id.
type headKey struct {
	name string
	slot int
}

// namesakes are the calls that share one id, in the order of their creation. A backend may give
// several calls the same id.
type namesakes struct {
	id      string
	calls   []*call
	first   [1]*call // the memory of calls, unless there are more
	current *call    // the first of the calls with the name that came last
}

// keysPerCall bounds the ids and places of a call. A call has a call id, ids of items and places;
// the bound leaves room for backends that change them.
const keysPerCall = 16

// find returns the call that an input is about, or nil if the call is new. It looks for the id of
// the item, then for the id of the call, then for the place. An input with none of these is about
// the call that was created last. find skips a call whose name, item or place differs from that of
// the input. It also skips a call that got other complete arguments from the same kind of input,
// except if in.summary is set: such an input comes from a list that repeats earlier items.
func (c *Choice) find(in *Input) *call {
	if in.head {
		return c.findEntry(in)
	}
	if found, known := c.byItem(in); known {
		return found
	}
	if found, known := c.byID(in); known {
		return found
	}
	if found := c.places[in.place]; found != nil && c.free(found, in) && (in.ID == "" || found.backend() == "") {
		return found
	}
	if last := c.last; in.ID == "" && in.Item == "" && in.ThreadItem == "" && in.place == (place{}) &&
		last != nil && !last.done && !last.textual && last.fits(in.Name) {
		return last
	}
	return nil
}

// id returns the input's id of a kind, which may be empty.
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

// byItem finds the call of an input by the ids of its items. If known is true and found is nil, the
// input is about a new call. If known is false, these ids do not decide which call it is.
func (c *Choice) byItem(in *Input) (found *call, known bool) {
	for kind := keyItem; kind < keyKinds && !known; kind++ {
		if id := in.id(kind); id != "" {
			found, known = c.among(c.keys[key{kind, id}], in)
		}
	}
	return found, known
}

// byID finds the call of an input by the id of the call, or by the id of the app-server's item:
// both have the same value. found and known mean the same as in byItem.
func (c *Choice) byID(in *Input) (found *call, known bool) {
	id := in.ID
	if id == "" {
		id = in.ThreadItem
	}
	if id == "" {
		return nil, false
	}
	if found, known = c.among(c.keys[key{keyID, id}], in); known {
		return found, true
	}
	return c.among(c.keys[key{keyThreadItem, id}], in)
}

// among picks the call that an input is about from the calls that share an id. There are three
// results:
//   - found is the call.
//   - found is nil and known is true: the input is about a new call with the same id, since the
//     other calls already have other complete arguments.
//   - known is false: the input contradicts all calls, for example by its name. Other ids of the
//     input may then find the call.
func (c *Choice) among(same *namesakes, in *Input) (found *call, known bool) {
	if same == nil {
		return nil, false
	}
	if in.whole == wholeNone {
		return c.open(same, in)
	}
	for _, other := range same.calls {
		switch {
		case !c.free(other, in) || in.round > 0 && other.round == in.round:
		case other.gave(in):
			return other, true
		case found == nil && other.wholes[in.whole].state == wholeUnknown:
			found = other
		case in.summary:
			known = true // the list repeats a call, in another version
			if found == nil {
				found = other
			}
		default:
			known = true
		}
	}
	return found, known || found != nil
}

// open does what among does, for an input without a complete text. It returns the call at the
// input's place, or otherwise the first call with the input's name. For an input without a name,
// that is the first call with the name that came last.
func (c *Choice) open(same *namesakes, in *Input) (found *call, known bool) {
	if at := c.places[in.place]; at != nil && c.free(at, in) && slices.Contains(same.calls, at) {
		return at, true
	}
	if in.Name == "" && same.current != nil && c.free(same.current, in) {
		return same.current, true
	}
	for _, other := range same.calls {
		if c.free(other, in) {
			return other, true
		}
	}
	return nil, false
}

// free reports whether an input may be about a call: the ids of their items, their names and their
// places do not contradict each other.
func (c *Choice) free(found *call, in *Input) bool {
	same := false // the item is the same; its place may differ in another response
	for kind := keyItem; kind < keyKinds; kind++ {
		if id, own := in.id(kind), found.ids[kind]; id != "" && own != "" {
			if id != own {
				return false
			}
			same = true
		}
	}
	return found.fits(in.Name) && (same || in.loose() || found.place.kind != in.place.kind || found.place == in.place)
}

// loose reports whether the place of an input is useless for finding its call: the input has no
// place, or it is a chat entry without an index, whose place is only its number in the list.
func (in *Input) loose() bool { return in.place == place{} || in.head && !in.fixed }

// create makes a call for an input. The call is not shown yet. If maxUnseen calls already wait to
// be shown or were dropped, create does not store the new call. It then returns a transient call,
// which is lost unless it is shown at once, or nil if the input has no name.
func (c *Choice) create(in *Input) *call {
	made := &call{ordinal: -1}
	if c.unseen >= maxUnseen {
		if in.Name == "" {
			c.stats.OverLimit++
			return nil
		}
		made.transient = true
		return made
	}
	c.unseen++
	c.last = made
	return made
}

// bindAll makes the ids and the place of an input refer to a call. fresh is true if the call was
// made for this input.
func (c *Choice) bindAll(made *call, in *Input, fresh bool) {
	for kind := range keyKinds {
		c.bindID(made, in, kind)
	}
	if in.head && in.Name == "" && !fresh {
		return // the call was found by the entry's place or id; no place is added
	}
	if !in.loose() {
		made.place = in.place
	}
	c.bindPlace(made, in.place)
	if in.head && in.Name != "" && in.ID == "" {
		c.bindHead(made, headKey{made.name, in.place.index})
	}
}

// bindID makes the input's id of a kind refer to a call. The first id of each kind is kept in the
// call.
func (c *Choice) bindID(made *call, in *Input, kind keyKind) {
	id := in.id(kind)
	if id == "" || made.transient || kind == keyThreadItem && id == made.ids[keyID] {
		return
	}
	same := c.keys[key{kind, id}]
	if same == nil {
		kept, ok := c.keep(id)
		if !ok {
			c.stats.OverLimit++
			return
		}
		if c.keys == nil {
			c.keys = make(map[key]*namesakes)
		}
		same = &namesakes{id: kept}
		same.calls = same.first[:0]
		c.keys[key{kind, kept}] = same
	}
	if same.current != made && !slices.Contains(same.calls, made) {
		if made.bindings >= keysPerCall {
			c.stats.OverLimit++
			return
		}
		made.bindings++
		same.calls = append(same.calls, made)
	}
	if same.current == nil || in.Name != "" && same.current.name != in.Name {
		same.current = made
	}
	if made.ids[kind] == "" {
		made.ids[kind] = same.id
	}
}

// bindPlace makes a place refer to a call, and no longer to any other.
func (c *Choice) bindPlace(made *call, at place) {
	if at == (place{}) || c.places[at] == made || made.transient || made.bindings >= keysPerCall {
		return
	}
	if c.places == nil {
		c.places = make(map[place]*call)
	}
	if c.places[at] == nil {
		text, ok := c.keep(at.text)
		if !ok {
			c.stats.OverLimit++
			return
		}
		at.text = text
		made.bindings++
	}
	c.places[at] = made
}

// bindHead makes a name at a place refer to a call.
func (c *Choice) bindHead(made *call, at headKey) {
	if c.heads[at] == made || made.transient || made.bindings >= keysPerCall {
		return
	}
	if c.heads == nil {
		c.heads = make(map[headKey]*call)
	}
	if c.heads[at] == nil {
		made.bindings++
	}
	c.heads[at] = made
}
