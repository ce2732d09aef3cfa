package aggregator

import "slices"

// placeKind is the kind of a place.
type placeKind uint8

const (
	placeOutput placeKind = iota + 1 // output_index of a Responses item
	placeSlot                        // index of a chat entry, or legacySlot
	placeBlock                       // offset of a block in the text of a message
)

// place is where an event says that its call stands. The zero value is no place.
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
	keyThreadItem                // the id of an item of the app-server's own
	keyKinds
)

// key is an id that a backend gives to calls.
type key struct {
	kind keyKind
	text string
}

// headKey is the place and the name in a chat entry without an id.
type headKey struct {
	name string
	slot int
}

// namesakes are the calls that have one id, in the order of their creation. A backend may give
// several calls the same one.
type namesakes struct {
	id      string
	calls   []*call
	first   [1]*call // the memory of calls, unless there are more
	current *call    // the first with the name that an event had last
}

// keysPerCall bounds the ids of a call: its call id, its item's ids and its places, and some more
// for those that a backend changes.
const keysPerCall = 16

// find returns the call that an input is about, nil if there is none: the one with the id of the
// item; with the id of the call; at the place; or, if the input has none of these, the one that
// was created last. A call with another name, or with an item or a place of its own that is not
// that of the input, is another call. So is a complete one that an equally trusted source gives
// other arguments.
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

// id returns the id of a kind that an input has.
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

// byItem finds the call of an input by the ids of its items. It reports whether they decide:
// then nil is a new call.
func (c *Choice) byItem(in *Input) (found *call, known bool) {
	for kind := keyItem; kind < keyKinds && !known; kind++ {
		if id := in.id(kind); id != "" {
			found, known = c.among(c.keys[key{kind, id}], in)
		}
	}
	return found, known
}

// byID finds the call of an input by its id, which is that of an item of the app-server, too.
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

// among returns which of the calls with one id an input is about. known is false if none can be.
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
			known = true // it comes again, in another version
			if found == nil {
				found = other
			}
		default:
			known = true
		}
	}
	return found, known || found != nil
}

// open returns which of the calls with one id an input is about that has no complete item: the one
// at its place; else the first with its name, or without a name one with the name that came last.
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

// free reports whether nothing that is known of a call speaks against an input being about it.
func (c *Choice) free(found *call, in *Input) bool {
	same := false // it is the same item: its place may be another one in another response
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

// loose reports whether the place of an input tells no calls apart: it has none, or has only
// been counted.
func (in *Input) loose() bool { return in.place == place{} || in.head && !in.fixed }

// create adds a call for an input, which is not shown yet; nil if there are too many of these.
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

// bindAll makes the ids and the place of an input name a call. fresh: the call was made for it.
func (c *Choice) bindAll(made *call, in *Input, fresh bool) {
	for kind := range keyKinds {
		c.bindID(made, in, kind)
	}
	if in.head && in.Name == "" && !fresh {
		return // the entry was found by its place, or by its id
	}
	if !in.loose() {
		made.place = in.place
	}
	c.bindPlace(made, in.place)
	if in.head && in.Name != "" && in.ID == "" {
		c.bindHead(made, headKey{made.name, in.place.index})
	}
}

// bindID makes the id of a kind that an input has name a call. The first one is the call's own.
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

// bindPlace makes a place mean a call, instead of any other.
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

// bindHead makes a name at a place mean a call.
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
