package aggregator

import (
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// readChatChoice reads an element of the choices of a chat.completion.chunk or chat.completion. id is the
// completion's id. An index in the element replaces the parameter choice.
func (in *ingestion) readChatChoice(choice int, id string, m members) {
	if n := in.readNumber(m.index); n >= 0 {
		choice = int(n)
	}
	switch {
	case m.delta.Kind() == wirejson.KindObject:
		in.readChatCalls(choice, readMembers(m.delta), false)
	case m.message.Kind() == wirejson.KindObject:
		in.readChatMessage(choice, id, readMembers(m.message))
	}
}

// readFunction reads the function of a tool call, or a function_call. complete: the message is complete.
func (in *ingestion) readFunction(object wirejson.Value, complete bool) Input {
	m := readMembers(object)
	input := Input{Name: in.readIdentifier(m.name), Done: complete, isChatEntry: true, hasPosition: in.opts.position > 0}
	source := SourceFragment
	if complete {
		input.list, source = in.agg.stats.Events, SourceText
	}
	input.Text, input.Source = in.readArguments(m.arguments, source)
	return input
}

// readChatCalls reads the calls of a delta or, if complete, of a message. A function_call beside tool_calls
// is ignored, since it is the same call. The result is false if there is no room for the choice.
func (in *ingestion) readChatCalls(choice int, m members, complete bool) bool {
	n, hasRoom := 0, true
	for v := range m.toolCalls.Values() {
		if v.Kind() != wirejson.KindObject {
			in.foundCall = true
			in.countMalformed("a tool call is not an object")
			continue
		}
		entry := readMembers(v)
		input := in.readFunction(entry.function, complete)
		input.ID = in.readIdentifier(entry.id)
		input.place = place{kind: placeSlot, index: int(in.readNumber(entry.index))}
		if input.hasIndex = input.place.index >= 0; !input.hasIndex {
			input.place.index = n
		}
		n++
		hasRoom = hasRoom && in.applyInput(choice, &input)
	}
	if n > 0 || m.functionCall.Kind() != wirejson.KindObject {
		return hasRoom
	}
	input := in.readFunction(m.functionCall, complete)
	input.place = place{kind: placeSlot, index: legacySlot}
	return in.applyInput(choice, &input)
}

// readChatMessage reads a complete message: its calls and, with opts.synthesize, the blocks of its text.
func (in *ingestion) readChatMessage(choice int, id string, m members) {
	if !in.readChatCalls(choice, m, true) || !in.opts.synthesize {
		return
	}
	blocks := extract(in.agg.patterns, m.wholeText())
	if len(blocks) == 0 {
		return
	}
	c := in.choice(choice)
	if c == nil {
		return
	}
	for _, b := range blocks {
		// The name distinguishes messages without ids that have a block at the same place.
		at := place{kind: placeBlock, index: b.Start, text: id + "\x00" + b.Name}
		c.deltas = c.deltas[:0]
		in.collect(c.addBlockCall(at, b.Name, b.Arguments, in.agg.parts[:0]))
	}
}

// wholeText returns a message's text: its text or content if that is a string, else the joined parts of content.
func (m members) wholeText() string {
	if text, ok := m.text.AsText(); ok {
		return text
	}
	if text, ok := m.content.AsText(); ok {
		return text
	}
	var out strings.Builder
	for v := range m.content.Values() {
		if text, ok := readMembers(v).text.AsText(); ok {
			out.WriteString(text)
		}
	}
	return out.String()
}
