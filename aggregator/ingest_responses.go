package aggregator

import (
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/jsontext"
)

// The streaming events of OpenAI's Responses API that carry calls.
const (
	eventItemAdded      = "response.output_item.added"
	eventItemDone       = "response.output_item.done"
	eventArgumentsDelta = "response.function_call_arguments.delta"
	eventArgumentsDone  = "response.function_call_arguments.done"
)

// responsesEvent holds the members of a Responses event beside its type and item,
// and those of the app-server's item/tool/call, which look alike.
type responsesEvent struct {
	itemID, callID, name, tool string
	delta, arguments           string // raw
	output                     int
	sequence                   int64
}

// take reads a member, if it is one of the event's.
func (e *responsesEvent) take(in *ingestion, key, value string) {
	switch key {
	case "item_id":
		e.itemID = in.identifier(value)
	case "call_id", "callId":
		e.callID = in.identifier(value)
	case "name":
		e.name = in.identifier(value)
	case "tool":
		e.tool = in.identifier(value)
	case "arguments":
		e.arguments = value
	case "output_index":
		e.output = int(in.number(value))
	case "sequence_number":
		e.sequence = in.number(value)
	}
}

// responsesEvent reads one event of a Responses stream.
func (in *ingestion) responsesEvent(choice int, e *envelope) {
	switch e.kind {
	case eventItemAdded:
		in.outputItem(choice, e, itemBegun)
	case eventItemDone:
		in.outputItem(choice, e, itemSettled)
	case eventArgumentsDelta:
		in.argumentsEvent(choice, &e.event, e.event.delta, sourceStream)
	case eventArgumentsDone:
		in.argumentsEvent(choice, &e.event, e.event.arguments, sourceMessage)
	default:
		if jsontext.IsObject(e.response) { // response.completed and its like hold all items
			in.responseObject(choice, e.response)
		}
	}
}

// outputItem reads response.output_item.added and .done.
func (in *ingestion) outputItem(choice int, e *envelope, phase itemPhase) {
	it := in.readItem(e.item)
	it.update.output = e.event.output
	it.update.sequence = e.event.sequence
	in.takeItem(choice, it, phase)
}

// argumentsEvent reads response.function_call_arguments.delta and .done. A
// fragment for an item that nobody announced waits for its name.
func (in *ingestion) argumentsEvent(choice int, e *responsesEvent, arguments string, from source) {
	in.calls = true
	u := update{
		name: e.name, callID: e.callID, itemID: e.itemID, output: e.output, sequence: e.sequence,
		done: from != sourceStream,
	}
	u.text, u.from = in.argumentText(arguments, from)
	if u.from == sourceParsed || !u.done && u.from == sourceNone {
		in.agg.stats.Malformed++
		return
	}
	in.takeUpdate(choice, &u)
}

// responseObject reads a whole Response: its output items are complete.
func (in *ingestion) responseObject(choice int, response string) {
	for w := jsontext.Walk(response); w.Next(); {
		if w.Key == "output" {
			in.outputItems(choice, w.Value)
		}
	}
}

// outputItems reads an array of Responses items.
func (in *ingestion) outputItems(choice int, items string) {
	for w := jsontext.Walk(items); w.Next(); {
		in.item(choice, w.Value, itemSettled)
	}
}

// takeUpdate finds the call that an update speaks of, or makes it, and applies
// the update to it.
func (in *ingestion) takeUpdate(choice int, u *update) {
	s := in.choice(choice)
	if s == nil || in.echo(s, u.callID) {
		return
	}
	c := s.find(u)
	if c == nil {
		if u.callID == "" && u.itemID == "" && u.output < 0 && u.name == "" {
			in.agg.stats.Malformed++
			return
		}
		if c = in.create(s); c == nil {
			return
		}
		s.structured++
	}
	in.bindUpdate(s, c, u)
	in.apply(s, c, u)
}

// find returns the call of an update: by its ids, else by the place of its item, else, for
// an update with neither, the call that was created last. If several calls have the id,
// it is the one at the place of the item.
func (s *choiceState) find(u *update) *call {
	var placed *call
	if u.output >= 0 {
		placed = s.keys[key{kind: keyOutput, place: u.output}]
	}
	if placed != nil && !placed.fits(u.name) {
		placed = nil
	}
	c := s.byID(keyCallID, u.callID, u.name)
	kind, id := keyCallID, u.callID
	if c == nil {
		c = s.byID(keyItemID, u.itemID, u.name)
		kind, id = keyItemID, u.itemID
	}
	if c != nil && placed != nil && c != placed && s.keys[namedKey(kind, id, placed.name)] == placed {
		return placed
	}
	if c != nil {
		return c
	}
	if placed != nil && (u.itemID == "" || placed.itemID == "") && (u.callID == "" || placed.backendID == "") {
		return placed
	}
	if u.callID == "" && u.itemID == "" && u.output < 0 && s.last != nil && !s.last.done && s.last.fits(u.name) {
		return s.last
	}
	return nil
}

// bindUpdate binds the ids and the output index of an update to its call. An output index
// means the newest item there, since the indexes start again with each response.
func (in *ingestion) bindUpdate(s *choiceState, c *call, u *update) {
	in.bindCallID(s, c, u.callID, u.name)
	if u.itemID != "" {
		if c.itemID == "" {
			c.itemID = strings.Clone(u.itemID)
		}
		in.bindID(s, c, keyItemID, u.itemID, u.name)
	}
	if u.output >= 0 {
		in.bind(s, c, key{kind: keyOutput, place: u.output})
	}
}
