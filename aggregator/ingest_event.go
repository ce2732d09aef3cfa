package aggregator

import (
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/jsontext"
)

// members are the members that matter of the objects in all shapes, as raw JSON; "" for
// those that are missing.
type members struct {
	kind, method, id, status, index, outputIndex, sequence string
	callID, itemID, name, tool, arguments                  string // of calls
	params, item, output, response                         string // containers of items
	choices, delta, message                                string // containers of chat bodies
	content, text, toolCalls, functionCall, function       string // of chat bodies
}

// readMembers reads an object in one pass.
func readMembers(object string) (m members) {
	for w := jsontext.Walk(object); w.Next(); {
		if place := m.place(w.Key); place != nil {
			*place = w.Value
		}
	}
	return m
}

// place returns where the value of a member belongs, or nil.
func (m *members) place(name string) *string {
	switch name {
	case "type":
		return &m.kind
	case "method":
		return &m.method
	case "id":
		return &m.id
	case "status":
		return &m.status
	case "index":
		return &m.index
	case "output_index":
		return &m.outputIndex
	case "sequence_number":
		return &m.sequence
	case "call_id", "callId":
		return &m.callID
	case "item_id":
		return &m.itemID
	case "name":
		return &m.name
	case "tool":
		return &m.tool
	case "arguments":
		return &m.arguments
	case "params":
		return &m.params
	case "item":
		return &m.item
	case "output":
		return &m.output
	case "response":
		return &m.response
	case "choices":
		return &m.choices
	case "delta":
		return &m.delta
	case "message":
		return &m.message
	case "content":
		return &m.content
	case "text":
		return &m.text
	case "tool_calls":
		return &m.toolCalls
	case "function_call":
		return &m.functionCall
	case "function":
		return &m.function
	}
	return nil
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
	in.dispatch(choice, readMembers(text))
	if !in.calls && a.stats.Malformed == refusedBefore {
		a.stats.Unknown++
	}
	return Result{Updated: len(in.deltas) > 0, Deltas: in.deltas}
}

// dispatch distinguishes the shapes by members that only one of them has.
func (in *ingestion) dispatch(choice int, m members) {
	kind := in.tag(m.kind)
	switch {
	case in.tag(m.method) != "":
		in.notification(choice, in.tag(m.method), readMembers(m.params))
	case strings.HasPrefix(kind, "response."):
		in.responsesEvent(choice, kind, m)
	case kind != "" && kind != itemMessage:
		in.item(choice, m, itemSettled)
	case jsontext.IsObject(m.item):
		in.item(choice, readMembers(m.item), itemSettled)
	case m.choices != "":
		in.chatChoices(choice, in.looseID(m.id), m.choices)
	case jsontext.IsObject(m.delta):
		in.chatDelta(in.ownChoice(choice, m.index), readMembers(m.delta))
	case jsontext.IsObject(m.message):
		in.chatMessage(in.ownChoice(choice, m.index), in.looseID(m.id), readMembers(m.message))
	case in.tag(m.callID) != "" && in.tag(m.tool) != "":
		in.toolCall(choice, m)
	case jsontext.IsObject(m.response):
		in.outputItems(choice, readMembers(m.response).output)
	case m.output != "":
		in.outputItems(choice, m.output)
	case in.opts.message:
		in.chatMessage(choice, in.looseID(m.id), m)
	default:
		in.chatDelta(choice, m)
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
