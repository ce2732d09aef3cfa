package aggregator

import (
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/jsontext"
)

// envelope is the outermost object of an event, with the members by which the shapes are
// distinguished. All members except kind, method and id are raw JSON values.
type envelope struct {
	kind   string // "type": Responses events and items
	method string // app-server messages
	id     string // of a message or a completion

	params, item, items, response string // containers of items
	choices, delta, message       string // containers of chat deltas and messages
	index                         string // of a chat choice
	chat                          chatBody
	event                         responsesEvent
}

// readEnvelope reads an object in one pass. dispatch then decides which members matter.
func (in *ingestion) readEnvelope(object string) envelope {
	e := envelope{event: responsesEvent{output: -1, sequence: noSequence}}
	for w := jsontext.Walk(object); w.Next(); {
		switch w.Key {
		case "type":
			e.kind = in.tag(w.Value)
		case "method":
			e.method = in.tag(w.Value)
		case "id":
			e.id = in.looseID(w.Value)
		case "params":
			e.params = w.Value
		case "item":
			e.item = w.Value
		case "output":
			e.items = w.Value
		case "response":
			e.response = w.Value
		case "choices":
			e.choices = w.Value
		case "delta":
			e.delta = w.Value
			e.event.delta = w.Value
		case "message":
			e.message = w.Value
		case "index":
			e.index = w.Value
		case "role", "content", "tool_calls", "function_call", "text":
			e.chat.take(w.Key, w.Value)
		default:
			e.event.take(in, w.Key, w.Value)
		}
	}
	return e
}

// ingest reads one event and hands it to the reader of its shape.
func (a *Aggregator) ingest(choice int, event []byte, opts ingestOptions) Result {
	a.stats.Events++
	in := ingestion{agg: a, opts: opts}
	text, ok := jsontext.Valid(event)
	if !ok || !jsontext.IsObject(text) {
		a.stats.Malformed++
		return Result{}
	}
	refusedBefore := a.stats.Malformed
	in.dispatch(choice, in.readEnvelope(text), text)
	if !in.calls && a.stats.Malformed == refusedBefore {
		a.stats.Unknown++
	}
	return in.result()
}

// dispatch distinguishes the shapes by members that only one of them has.
func (in *ingestion) dispatch(choice int, e envelope, object string) {
	switch {
	case e.method != "":
		in.notification(choice, e.method, e.params)
	case strings.HasPrefix(e.kind, "response."):
		in.responsesEvent(choice, &e)
	case e.kind != "" && e.kind != itemMessage:
		in.item(choice, object, itemSettled)
	case jsontext.IsObject(e.item):
		in.item(choice, e.item, itemSettled)
	case e.choices != "":
		in.chatChoices(choice, e.id, e.choices)
	case jsontext.IsObject(e.delta):
		in.chatDelta(in.ownChoice(choice, e.index), readChatBody(e.delta))
	case jsontext.IsObject(e.message):
		in.chatMessage(in.ownChoice(choice, e.index), e.id, readChatBody(e.message))
	case e.event.toolCall():
		in.toolCall(choice, &e.event)
	case jsontext.IsObject(e.response):
		in.responseObject(choice, e.response)
	case e.items != "":
		in.outputItems(choice, e.items)
	case in.opts.message:
		in.chatMessage(choice, e.id, e.chat)
	default:
		in.chatDelta(choice, e.chat)
	}
}

// tag reads a string by which shapes are distinguished. It returns "" for other values.
func (in *ingestion) tag(value string) string {
	text, _ := jsontext.AsString(value)
	return text.String()
}

// looseID reads an id that is only compared: a string, or else nothing.
func (in *ingestion) looseID(value string) string {
	text, ok := jsontext.AsString(value)
	if !ok || text.Size() > maxNameBytes {
		return ""
	}
	return text.String()
}

// identifier reads the name or an id of a call. It returns "" for null, and for a value of
// another type or a text that is too long, which count as malformed.
func (in *ingestion) identifier(value string) string {
	text, ok := jsontext.AsString(value)
	switch {
	case ok && text.Size() <= maxNameBytes:
		return text.String()
	case value != "" && value != "null":
		in.agg.stats.Malformed++
	}
	return ""
}

// argumentText reads arguments: text as the model wrote it, or, where a backend
// has parsed it, the JSON of an object.
func (in *ingestion) argumentText(value string, from source) (jsontext.String, source) {
	text, ok := jsontext.AsString(value)
	switch {
	case ok:
		return text, from
	case jsontext.IsObject(value):
		return jsontext.Plain(value), sourceParsed
	case value != "" && value != "null":
		in.agg.stats.Malformed++
	}
	return jsontext.String{}, sourceNone
}

// number reads a count from 0. Anything else is -1.
func (in *ingestion) number(value string) int64 {
	n := int64(0)
	if value == "" || value == "null" {
		return -1
	}
	if len(value) > 18 {
		in.agg.stats.Malformed++
		return -1
	}
	for i := range len(value) {
		if value[i] < '0' || value[i] > '9' {
			in.agg.stats.Malformed++
			return -1
		}
		n = n*10 + int64(value[i]-'0')
	}
	return n
}
