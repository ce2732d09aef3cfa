package aggregator

import "github.com/caddy-codex/caddy-codex/internal/jsontext"

// legacySlot is the place of delta.function_call and message.function_call, beside the
// indexes of tool_calls. A message has at most one.
const legacySlot = -1

// chatCall is an element of tool_calls, or function_call, read.
type chatCall struct {
	slot int // index, or place in the array, or legacySlot
	update
}

// ownChoice is the index that a choice object names, else the caller's.
func (in *ingestion) ownChoice(choice int, index string) int {
	if n := in.number(index); n >= 0 {
		return int(n)
	}
	return choice
}

// chatChoices reads the choices of a chat.completion.chunk or a chat.completion.
func (in *ingestion) chatChoices(choice int, id, choices string) {
	for w := jsontext.Walk(choices); w.Next(); {
		m := readMembers(w.Value)
		switch own := in.ownChoice(choice, m.index); {
		case jsontext.IsObject(m.delta):
			in.chatDelta(own, readMembers(m.delta))
		case jsontext.IsObject(m.message):
			in.chatMessage(own, id, readMembers(m.message))
		}
	}
}

// chatCalls reads the calls of a delta or a message. function_call beside tool_calls is the
// same call again, in the older form, and not read.
func (in *ingestion) chatCalls(m members, from source) []chatCall {
	calls := in.chat[:0]
	for w := jsontext.Walk(m.toolCalls); w.Next(); {
		if !jsontext.IsObject(w.Value) {
			in.calls = true
			in.agg.stats.Malformed++
			continue
		}
		entry := readMembers(w.Value)
		c := in.readFunction(entry.function, from)
		c.callID = in.identifier(entry.id)
		if c.slot = int(in.number(entry.index)); c.slot < 0 {
			c.slot = len(calls)
		}
		calls = append(calls, c)
	}
	if len(calls) == 0 && jsontext.IsObject(m.functionCall) {
		c := in.readFunction(m.functionCall, from)
		c.slot = legacySlot
		calls = append(calls, c)
	}
	return calls
}

// readFunction reads the function of a tool call, or a function_call.
func (in *ingestion) readFunction(object string, from source) (c chatCall) {
	m := readMembers(object)
	c.update = noPlace
	c.name = in.identifier(m.name)
	c.text, c.from = in.argumentText(m.arguments, from)
	return c
}

// chatDelta takes the calls of a delta. An entry with a name is the head of its
// call, an entry without one the next fragment of the call at its index. Neither has
// an identity; see callHead for what that means for a head that comes again.
func (in *ingestion) chatDelta(choice int, m members) {
	for _, cc := range in.chatCalls(m, sourceStream) {
		s := in.choice(choice)
		if s == nil {
			return
		}
		switch {
		case in.echo(s, cc.callID):
		case cc.name == "":
			in.chatFragment(s, cc)
		default:
			if c := in.headed(s, cc); c != nil {
				if cc.from == sourceStream && !in.newHead(s, c, cc.text) {
					cc.from = sourceNone
				}
				in.apply(s, c, &cc.update)
			}
		}
	}
}

// chatFragment appends to the call that an entry without a name continues.
func (in *ingestion) chatFragment(s *choiceState, cc chatCall) {
	c := s.continued(cc)
	if c == nil {
		if cc.text.Size() == 0 && cc.callID == "" {
			in.agg.stats.Duplicates++
			return
		}
		if c = in.create(s, false); c == nil {
			return
		}
		in.bind(s, c, key{kind: keySlot, place: cc.slot})
	}
	in.bindCallID(s, c, cc.callID, "")
	if cc.text.Size() > 0 {
		c.head.equal = 0 // the backend does not repeat heads
	}
	in.apply(s, c, &cc.update)
}

// continued finds the call of an entry without a name: by its id, by its index, by
// the order of creation. Of calls that share an id the one at the index is meant.
func (s *choiceState) continued(cc chatCall) *call {
	slot := s.keys[key{kind: keySlot, place: cc.slot}]
	if slot != nil && slot.backendID == cc.callID {
		return slot
	}
	if c := s.byID(keyCallID, cc.callID, ""); c != nil {
		return c
	}
	if slot == nil {
		slot = s.placed(cc.slot)
	}
	if slot != nil && cc.callID != "" && slot.backendID != "" {
		return nil // another call
	}
	return slot
}

// headed finds the call of an entry with a name, or makes it, and binds its id and
// place to it. nil: there is no room for another call.
func (in *ingestion) headed(s *choiceState, cc chatCall) *call {
	c := s.named(cc)
	if c == nil {
		if c = in.create(s, false); c == nil {
			return nil
		}
	}
	if cc.callID == "" {
		in.bind(s, c, key{kind: keyHead, text: cc.name, place: cc.slot})
	}
	in.bind(s, c, key{kind: keySlot, place: cc.slot})
	in.bindCallID(s, c, cc.callID, cc.name)
	return c
}

// named finds the call of an entry with a name: by id; without one by place and
// name; else the call at the place, if that still waits for the id or the name.
func (s *choiceState) named(cc chatCall) *call {
	if c := s.byID(keyCallID, cc.callID, cc.name); c != nil {
		return c
	}
	if cc.callID == "" {
		if c := s.keys[key{kind: keyHead, text: cc.name, place: cc.slot}]; c != nil {
			return c
		}
	}
	c := s.keys[key{kind: keySlot, place: cc.slot}]
	if c == nil || !c.fits(cc.name) {
		c = s.placed(cc.slot)
	}
	if c == nil || !c.fits(cc.name) || cc.callID != "" && c.backendID != "" {
		return nil
	}
	return c
}
