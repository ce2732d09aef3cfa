package aggregator

import "strings"

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

	raw         bool // Item comes from a message of the app-server (a raw item), not from a Responses stream
	fromText    bool // the input is about a block in the text, which only its place identifies
	place       place
	sequence    int64    // the number of the event plus 1; 0: no number
	announces   bool     // the event announces an item
	cachedHash  textHash // of Text, computed when it is needed
	list        uint64   // the number of the list that contains this entry; two equal entries of one list are two calls; 0: in no list
	isChatEntry bool     // an entry of a chat delta or of a chat message
	hasIndex    bool     // the entry has an index
	hasPosition bool     // the event has a position (see IngestEvent), so it repeats no earlier event
}

func (in *Input) isAnonymous() bool {
	return in.ID == "" && in.Item == "" && in.ThreadItem == "" && in.place == place{}
}

// Call applies an input about a structured call. It appends to out the parts that are already
// certain, and returns out. An input that changes nothing adds a part that says so.
func (c *Choice) Call(in Input, out []Part) []Part {
	c.deltas = c.deltas[:0]
	in.raw = true // the items are of the app-server, not of a Responses stream
	return c.applyInput(&in, out)
}

// Repeats reports whether Call would ignore an input, since an earlier input of the same kind gave the call
// the same arguments.
func (c *Choice) Repeats(in Input) bool {
	in.raw = true
	found := c.find(&in)
	return found != nil && found.receivedText(&in)
}

// applyInput finds or makes the call that an input is about, and applies the input to this call.
func (c *Choice) applyInput(in *Input, out []Part) []Part {
	call := c.find(in)
	isNew := call == nil
	if isNew {
		if fault := faultOf(in); fault != 0 {
			return append(out, Part{Kind: fault})
		}
		if call = c.create(in); call == nil {
			return append(out, Part{Kind: PartOverLimit})
		}
	}
	call.lastList = in.list
	named := call.name == "" && in.Name != ""
	if named {
		name, ok := c.keep(in.Name, 0)
		if !ok {
			return c.drop(call, PartOverLimit, out)
		}
		call.name = name
	}
	c.bindAll(call, in, isNew)
	if in.isChatEntry {
		c.dropRepeatedHead(call, in)
	}
	return c.applyTo(call, in, named, out)
}

// applyTo applies an input to a call. named is true if this input has given the call its name.
func (c *Choice) applyTo(call *callState, in *Input, named bool, out []Part) []Part {
	var changed bool
	var note PartKind
	wasCut := call.truncated
	switch in.Source {
	case SourceFragment:
		changed, note = c.addFragment(call, in)
	case SourceParsed, SourceText, SourceItem:
		changed, note = c.setCompleteText(call, in)
		call.recordText(in)
	}
	call.lastSequence = max(call.lastSequence, in.sequence)
	call.announced = call.announced || in.announces
	ended := in.Done && !call.done
	if ended {
		call.done = true
		call.flushHalf(c)
	}
	if !named && !changed && !ended {
		return append(out, Part{Kind: PartRepeated})
	}
	out = c.show(call, ended, out)
	if note != 0 {
		out = append(out, Part{Kind: note})
	}
	if call.truncated && !wasCut {
		out = append(out, Part{Kind: PartOverLimit})
	}
	return out
}

// addFragment appends the next fragment of the arguments. A fragment whose number is not above the highest
// so far is a repetition. A fragment without a number always counts, since two fragments may have equal
// text. changed is false for repeated or empty fragments. note is the part for a refused fragment, or 0.
func (c *Choice) addFragment(call *callState, in *Input) (changed bool, note PartKind) {
	if in.Text == "" || in.sequence > 0 && in.sequence <= call.lastSequence {
		return false, 0
	}
	if call.source == SourceParsed && !call.done { // the model's text replaces the JSON of Codex
		call.discardArguments(c)
		call.source = SourceNone
	}
	switch {
	case call.done:
		note = PartEnded
	case call.truncated:
		note = PartOverLimit
	default:
		call.appendFragment(in.Text, c)
	}
	call.source = max(call.source, SourceFragment)
	return true, note
}

// setCompleteText sets the complete text of a call. changed is false if the text adds nothing to the call.
// note is PartConflict if the text was refused, or replaced a text that the model wrote, else 0.
func (c *Choice) setCompleteText(call *callState, in *Input) (changed bool, note PartKind) {
	call.pendingHalf = "" // the complete text has the whole character
	current := call.args.String()
	switch {
	case in.Source == SourceParsed && (call.source != SourceNone || call.truncated || in.Text == ""):
		return false, 0
	case in.Source == SourceParsed && len(in.Text) > c.argumentRoom:
		call.truncated = true // none of the JSON is kept: a part of it would be invalid
		return true, 0
	case in.Text == "", call.hasText(in):
		if in.Text != "" || call.source != SourceParsed { // an empty text leaves the JSON of Codex provisional
			call.source = max(call.source, in.Source)
		}
		return false, 0
	}
	added, longer := strings.CutPrefix(in.Text, current)
	if in.Source <= call.source { // the text so far is trusted as much, or more
		return true, PartConflict
	}
	if !longer {
		if call.source > SourceParsed {
			note = PartConflict
		}
		call.discardArguments(c)
		added = in.Text
	}
	call.source = in.Source
	call.head.equalHeads = 0
	call.appendFragment(added, c)
	call.flushHalf(c)
	return true, note
}

// show appends the changes of a call since its last delta to out, and returns out. ended says that the call
// has just become complete, which is a change, too. A call that is shown for the first time gets its
// ordinal and its id. A call that repeats another call or is above the limit is dropped instead. A call
// that has no name yet is not shown.
func (c *Choice) show(call *callState, ended bool, out []Part) []Part {
	if call.name == "" || call.dropped {
		return out
	}
	first := !call.isShown()
	if first {
		switch {
		case c.actions != nil && call.hasAllArguments() && c.isRepeat(call):
			return c.drop(call, PartDuplicate, out)
		case c.isFull():
			return c.drop(call, PartOverLimit, out)
		}
		call.ordinal = len(c.calls)
		call.id = CallID(c.opts.Index, call.ordinal, c.opts.IDSuffix)
		c.calls = append(c.calls, call)
	} else if call.done && !call.counted {
		c.countAction(call)
	}
	if !first && !call.replaced && call.emittedBytes == call.args.Len() && !ended {
		return out
	}
	c.deltas = append(c.deltas, call.nextDelta(c.opts.Index, first))
	return append(out, Part{Kind: PartCall, Call: &c.deltas[len(c.deltas)-1]})
}

// drop makes sure that a call is never shown, and appends a part of the given kind to out. The ids
// and places of the call stay, so that further inputs about the call are recognised.
func (c *Choice) drop(call *callState, kind PartKind, out []Part) []Part {
	call.dropped = true
	return append(out, Part{Kind: kind})
}

// faultOf returns the part for an input that cannot begin a call, or 0. Without a name, these cannot: an
// entry of a complete message, a chat delta with neither id nor text, an input with neither ids nor place.
func faultOf(in *Input) PartKind {
	switch {
	case in.Name != "":
	case in.isChatEntry && !in.Done && in.ID == "" && in.Text == "":
		return PartRepeated
	case in.isChatEntry && in.Done, in.isAnonymous():
		return PartMalformed
	}
	return 0
}

// addBlockCall makes a call of a block, unless a block at the same place of the message has already made a
// call. The zero place means that the block is new.
func (c *Choice) addBlockCall(at place, name, arguments string, out []Part) []Part {
	c.countActions()
	return c.applyInput(&Input{Name: name, Text: arguments, Source: SourceText, Done: true, place: at, fromText: true}, out)
}
