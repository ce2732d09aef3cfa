package aggregator

import "github.com/caddy-codex/caddy-codex/internal/jsontext"

// legacySlot is the place of delta.function_call and message.function_call, beside the
// indexes of tool_calls. A message has at most one.
const legacySlot = -1

// chatBody is a chat delta or a chat message: raw values.
type chatBody struct {
	content, toolCalls, functionCall, text string
}

// take reads a member, if it is one of the body's.
func (b *chatBody) take(key, value string) {
	switch key {
	case "content":
		b.content = value
	case "tool_calls":
		b.toolCalls = value
	case "function_call":
		b.functionCall = value
	case "text": // an agentMessage item of the app-server
		b.text = value
	}
}

// readChatBody reads an object.
func readChatBody(object string) chatBody {
	var b chatBody
	for w := jsontext.Walk(object); w.Next(); {
		b.take(w.Key, w.Value)
	}
	return b
}

// chatCall is an element of tool_calls, or function_call, read.
type chatCall struct {
	slot int // index, or place in the array, or legacySlot
	id   string
	name string
	text jsontext.String
	from source
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
		var index, delta, message string
		for m := jsontext.Walk(w.Value); m.Next(); {
			switch m.Key {
			case "index":
				index = m.Value
			case "delta":
				delta = m.Value
			case "message":
				message = m.Value
			}
		}
		switch own := in.ownChoice(choice, index); {
		case jsontext.IsObject(delta):
			in.chatDelta(own, readChatBody(delta))
		case jsontext.IsObject(message):
			in.chatMessage(own, id, readChatBody(message))
		}
	}
}

// chatCalls reads the calls of a body. function_call beside tool_calls is the same
// call again, in the older form, and not read.
func (in *ingestion) chatCalls(b chatBody, from source) []chatCall {
	calls := in.chat[:0]
	for w := jsontext.Walk(b.toolCalls); w.Next(); {
		if !jsontext.IsObject(w.Value) {
			in.calls = true
			in.agg.stats.Malformed++
			continue
		}
		c := in.readToolCall(w.Value, from)
		if c.slot < 0 {
			c.slot = len(calls)
		}
		calls = append(calls, c)
	}
	if len(calls) == 0 && jsontext.IsObject(b.functionCall) {
		c := chatCall{}
		in.readFunction(&c, b.functionCall, from)
		c.slot = legacySlot
		calls = append(calls, c)
	}
	return calls
}

// readToolCall reads an element of tool_calls.
func (in *ingestion) readToolCall(object string, from source) chatCall {
	c := chatCall{slot: -1}
	for w := jsontext.Walk(object); w.Next(); {
		switch w.Key {
		case "index":
			c.slot = int(in.number(w.Value))
		case "id":
			c.id = in.identifier(w.Value)
		case "function":
			in.readFunction(&c, w.Value, from)
		}
	}
	return c
}

// readFunction reads the function of a tool call, or a function_call.
func (in *ingestion) readFunction(c *chatCall, object string, from source) {
	for w := jsontext.Walk(object); w.Next(); {
		switch w.Key {
		case "name":
			c.name = in.identifier(w.Value)
		case "arguments":
			c.text, c.from = in.argumentText(w.Value, from)
		}
	}
}

// chatDelta takes the calls of a delta. An entry with a name is the head of its
// call, an entry without one the next fragment of the call at its index. Neither has
// an identity; see callHead for what that means for a head that comes again.
func (in *ingestion) chatDelta(choice int, b chatBody) {
	for _, cc := range in.chatCalls(b, sourceStream) {
		s := in.choice(choice)
		if s == nil {
			return
		}
		switch {
		case in.echo(s, cc.id):
		case cc.name == "":
			in.chatFragment(s, cc)
		default:
			in.takeHead(s, cc)
		}
	}
}

// chatFragment appends to the call that an entry without a name continues.
func (in *ingestion) chatFragment(s *choiceState, cc chatCall) {
	c := s.continued(cc)
	if c == nil {
		if cc.text.Size() == 0 && cc.id == "" {
			in.agg.stats.Duplicates++
			return
		}
		if c = in.create(s); c == nil {
			return
		}
		s.structured++
		in.bind(s, c, key{kind: keySlot, place: cc.slot})
	}
	in.bindCallID(s, c, cc.id, "")
	if cc.text.Size() > 0 {
		c.head.single()
	}
	in.apply(s, c, &update{text: cc.text, from: cc.from, output: -1, sequence: noSequence})
}

// continued finds the call of an entry without a name: by its id, by its index, by
// the order of creation. Of calls that share an id the one at the index is meant.
func (s *choiceState) continued(cc chatCall) *call {
	slot := s.keys[key{kind: keySlot, place: cc.slot}]
	if slot != nil && slot.backendID == cc.id {
		return slot
	}
	if c := s.byID(keyCallID, cc.id, ""); c != nil {
		return c
	}
	if slot == nil {
		slot = s.placed(cc.slot)
	}
	if slot != nil && cc.id != "" && slot.backendID != "" {
		return nil // another call
	}
	return slot
}

// takeHead takes the head of a call.
func (in *ingestion) takeHead(s *choiceState, cc chatCall) {
	c := in.headed(s, cc)
	if c == nil {
		return
	}
	u := update{name: cc.name, text: cc.text, from: cc.from, output: -1, sequence: noSequence}
	if cc.from == sourceStream && !in.newHead(s, c, cc.text) {
		u.from = sourceNone
	}
	in.apply(s, c, &u)
}

// headed finds the call of an entry with a name, or makes it, and binds its id and
// place to it. nil: there is no room for another call.
func (in *ingestion) headed(s *choiceState, cc chatCall) *call {
	c := s.named(cc)
	if c == nil {
		if c = in.create(s); c == nil {
			return nil
		}
		s.structured++
	}
	if cc.id == "" {
		in.bind(s, c, key{kind: keyHead, text: cc.name, place: cc.slot})
	}
	in.bind(s, c, key{kind: keySlot, place: cc.slot})
	in.bindCallID(s, c, cc.id, cc.name)
	return c
}

// named finds the call of an entry with a name: by id; without one by place and
// name; else the call at the place, if that still waits for the id or the name.
func (s *choiceState) named(cc chatCall) *call {
	if c := s.byID(keyCallID, cc.id, cc.name); c != nil {
		return c
	}
	if cc.id == "" {
		if c := s.keys[key{kind: keyHead, text: cc.name, place: cc.slot}]; c != nil {
			return c
		}
	}
	c := s.keys[key{kind: keySlot, place: cc.slot}]
	if c == nil || !c.fits(cc.name) {
		c = s.placed(cc.slot)
	}
	if c == nil || !c.fits(cc.name) || cc.id != "" && c.backendID != "" {
		return nil
	}
	return c
}
