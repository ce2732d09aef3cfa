package aggregator

import (
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// chatChoice reads an element of the choices of a chat.completion.chunk or of a chat.completion; id
// is the id of that object. If the element has an index, this index is used instead of choice.
func (in *ingestion) chatChoice(choice int, id string, m members) {
	if n := in.number(m.index); n >= 0 {
		choice = int(n)
	}
	switch {
	case wirejson.IsObject(m.delta):
		in.takeChat(choice, readMembers(m.delta), false)
	case wirejson.IsObject(m.message):
		in.chatMessage(choice, id, readMembers(m.message))
	}
}

// readFunction reads the function of a tool call, or a function_call.
func (in *ingestion) readFunction(object string, whole bool) Input {
	m := readMembers(object)
	u := Input{Name: in.identifier(m.name), Done: whole, head: true, position: in.opts.positioned}
	if whole {
		u.round = in.agg.stats.Events
		if u.Text, u.Source = in.argumentText(m.arguments, SourceText); u.Source == SourceText {
			u.whole = wholeMessage
		}
	} else {
		u.Text, u.Source = in.argumentText(m.arguments, SourceFragment)
	}
	return u
}

// takeChat reads the calls of a delta or, if whole is true, of a complete message. It ignores a
// function_call beside tool_calls: it is the same call in the older form. takeChat returns false if
// there is no room for the choice.
func (in *ingestion) takeChat(choice int, m members, whole bool) bool {
	n, room := 0, true
	for w := wirejson.Walk(m.toolCalls); w.Next(); {
		if !wirejson.IsObject(w.Value) {
			in.calls = true
			in.malformed("a tool call is not an object")
			continue
		}
		entry := readMembers(w.Value)
		u := in.readFunction(entry.function, whole)
		u.ID = in.identifier(entry.id)
		u.place = place{kind: placeSlot, index: int(in.number(entry.index))}
		if u.fixed = u.place.index >= 0; !u.fixed {
			u.place.index = n
		}
		n++
		room = room && in.take(choice, &u)
	}
	if n > 0 || !wirejson.IsObject(m.functionCall) {
		return room
	}
	u := in.readFunction(m.functionCall, whole)
	u.place = place{kind: placeSlot, index: legacySlot}
	return in.take(choice, &u)
}

// chatMessage reads a complete message: its calls, and the blocks of its text if
// the options ask for them.
func (in *ingestion) chatMessage(choice int, id string, m members) {
	if in.takeChat(choice, m, true) && in.opts.synthesize {
		in.textCalls(choice, id, m.wholeText())
	}
}

// textCalls makes a call of each block of a text.
func (in *ingestion) textCalls(choice int, id, text string) {
	blocks := extract(in.agg.patterns, text)
	if len(blocks) == 0 {
		return
	}
	c := in.choice(choice)
	if c == nil {
		return
	}
	for _, b := range blocks {
		// The name distinguishes two messages without ids that have a block at the
		// same place.
		at := place{kind: placeBlock, index: b.Start, text: id + "\x00" + b.Name}
		c.deltas = c.deltas[:0]
		before := c.stats
		in.collect(c, &before, c.textCall(at, b.Name, b.Arguments, in.agg.parts[:0]))
	}
}

// wholeText returns the text of a message: its text or content if one is a string,
// or else the joined texts of its parts.
func (m members) wholeText() string {
	if text, ok := wirejson.AsString(m.text); ok {
		return text.String()
	}
	if text, ok := wirejson.AsString(m.content); ok {
		return text.String()
	}
	var out strings.Builder
	for w := wirejson.Walk(m.content); w.Next(); {
		if text, ok := wirejson.AsString(readMembers(w.Value).text); ok {
			out.WriteString(text.String())
		}
	}
	return out.String()
}
