package aggregator

import (
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/jsontext"
)

// legacySlot is the place of delta.function_call and message.function_call, beside the
// indexes of tool_calls. A message has at most one.
const legacySlot = -1

// chatChoice reads an element of the choices of a chat.completion.chunk, or of a
// chat.completion with that id. The choice is the one that it names, else the caller's.
func (in *ingestion) chatChoice(choice int, id string, m members) {
	if n := in.number(m.index); n >= 0 {
		choice = int(n)
	}
	switch {
	case jsontext.IsObject(m.delta):
		in.takeChat(choice, readMembers(m.delta), sourceStream)
	case jsontext.IsObject(m.message):
		in.chatMessage(choice, id, readMembers(m.message))
	}
}

// readFunction reads the function of a tool call, or a function_call.
func (in *ingestion) readFunction(object string, from source) update {
	m := readMembers(object)
	u := noPlace
	u.name, u.done = in.identifier(m.name), from == sourceMessage
	u.text, u.from = in.argumentText(m.arguments, from)
	return u
}

// takeChat takes the calls of a delta, or of a message, whose calls are complete. function_call
// beside tool_calls is the same call again, in the older form, and not read. It reports whether
// there is room for the choice.
func (in *ingestion) takeChat(choice int, m members, from source) bool {
	n, room := 0, true
	for w := jsontext.Walk(m.toolCalls); w.Next(); {
		if !jsontext.IsObject(w.Value) {
			in.calls = true
			in.agg.stats.Malformed++
			continue
		}
		entry := readMembers(w.Value)
		u := in.readFunction(entry.function, from)
		u.callID = in.identifier(entry.id)
		if u.slot = int(in.number(entry.index)); u.slot < 0 {
			u.slot = n
		}
		n++
		room = room && in.takeEntry(choice, &u)
	}
	if n > 0 || !jsontext.IsObject(m.functionCall) {
		return room
	}
	u := in.readFunction(m.functionCall, from)
	u.slot = legacySlot
	return in.takeEntry(choice, &u)
}

// takeEntry takes a call of a delta or of a message. One with a name is the head of its call,
// one without it the next fragment of the call at its index. Neither has an identity; see
// callHead for what that means for a head that comes again.
func (in *ingestion) takeEntry(choice int, u *update) (room bool) {
	s := in.choice(choice)
	if s == nil || in.echo(s, u.callID) {
		return s != nil
	}
	if c := in.chatCall(s, u); c != nil {
		if u.name != "" && u.from == sourceStream && !in.newHead(s, c, u.text) {
			u.from = sourceNone
		}
		in.apply(s, c, u)
	}
	return true
}

// chatCall returns the call of an entry, and binds its id and place to it. Without one it
// makes one, unless a name is missing: then a fragment of a delta may wait for it, but one of
// a message belongs to a call that is known. nil: there is none.
func (in *ingestion) chatCall(s *choiceState, u *update) *call {
	c, named := s.chatCall(u), u.name != ""
	made := c == nil
	switch {
	case !named && u.done:
		if made {
			in.agg.stats.Malformed++
		}
		return c
	case !named && made && u.text.Size() == 0 && u.callID == "":
		in.agg.stats.Duplicates++
		return nil
	case made:
		if c = in.create(s, false); c == nil {
			return nil
		}
	}
	if named && u.callID == "" {
		in.bind(s, c, key{kind: keyHead, text: u.name, place: u.slot})
	}
	if named || made {
		in.bind(s, c, key{kind: keySlot, place: u.slot})
	}
	in.bindCallID(s, c, u.callID, u.name)
	if !named && u.text.Size() > 0 {
		c.head.equal = 0 // the backend does not repeat heads
	}
	return c
}

// chatCall finds the call of an entry: by id, and, of calls that share it, the one at the
// place; with a name alone by place and name; else the call at the place, by the index or
// the order of creation, if that still waits for the id or the name.
func (s *choiceState) chatCall(u *update) *call {
	slot := s.keys[key{kind: keySlot, place: u.slot}]
	if u.name == "" && slot != nil && slot.backendID == u.callID {
		return slot
	}
	if c := s.byID(keyCallID, u.callID, u.name); c != nil {
		return c
	}
	if u.name != "" && u.callID == "" {
		if c := s.keys[key{kind: keyHead, text: u.name, place: u.slot}]; c != nil {
			return c
		}
	}
	if slot == nil || !slot.fits(u.name) {
		slot = s.placed(u.slot)
	}
	if slot == nil || !slot.fits(u.name) || u.callID != "" && slot.backendID != "" {
		return nil
	}
	return slot
}

// chatMessage takes a complete message: its calls, and the blocks of its text if
// that is asked for.
func (in *ingestion) chatMessage(choice int, id string, m members) {
	if in.takeChat(choice, m, sourceMessage) && in.opts.synthesize {
		in.textCalls(choice, id, m.wholeText())
	}
}

// textCalls makes calls of the blocks of a text.
func (in *ingestion) textCalls(choice int, id, text string) {
	blocks := extract(in.agg.patterns, text)
	if len(blocks) == 0 {
		return
	}
	s := in.choice(choice)
	if s == nil || s.structured > 0 {
		return
	}
	for _, b := range blocks {
		// The name distinguishes two messages without ids that have a block at the
		// same place.
		k := key{kind: keyBlock, text: id + "\x00" + b.Name, place: b.Start}
		c := s.keys[k]
		if c == nil {
			if c = in.create(s, true); c == nil {
				return
			}
			in.bind(s, c, k)
		}
		in.apply(s, c, &update{name: b.Name, text: jsontext.Plain(b.Arguments), from: sourceMessage, done: true, sequence: noSequence})
	}
}

// wholeText returns the text of a message: its content, if that is a string, or
// the text of its parts, one behind the other.
func (m members) wholeText() string {
	if text, ok := jsontext.AsString(m.text); ok {
		return text.String()
	}
	if text, ok := jsontext.AsString(m.content); ok {
		return text.String()
	}
	var out strings.Builder
	for w := jsontext.Walk(m.content); w.Next(); {
		if text, ok := jsontext.AsString(readMembers(w.Value).text); ok {
			out.WriteString(text.String())
		}
	}
	return out.String()
}
