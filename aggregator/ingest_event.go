package aggregator

import (
	"strconv"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// members has the members of an object that are needed for any of the shapes. A missing member is nil.
type members struct {
	kind, method, id, status, index, outputIndex, sequence wirejson.Value
	callID, itemID, name, tool, arguments                  wirejson.Value // of calls
	params, item, output, response                         wirejson.Value // containers of items
	choices, delta, message                                wirejson.Value // containers of chat bodies
	content, text, toolCalls, functionCall, function       wirejson.Value // of chat bodies
}

func readMembers(object wirejson.Value) (m members) {
	if object.Kind() != wirejson.KindObject {
		return m
	}
	object.Pick(wirejson.Into("type", &m.kind), wirejson.Into("method", &m.method), wirejson.Into("id", &m.id),
		wirejson.Into("status", &m.status), wirejson.Into("index", &m.index), wirejson.Into("output_index", &m.outputIndex),
		wirejson.Into("sequence_number", &m.sequence), wirejson.Into("call_id", &m.callID), wirejson.Into("callId", &m.callID),
		wirejson.Into("item_id", &m.itemID), wirejson.Into("itemId", &m.itemID), wirejson.Into("name", &m.name),
		wirejson.Into("tool", &m.tool), wirejson.Into("arguments", &m.arguments), wirejson.Into("params", &m.params),
		wirejson.Into("item", &m.item), wirejson.Into("output", &m.output), wirejson.Into("response", &m.response),
		wirejson.Into("choices", &m.choices), wirejson.Into("delta", &m.delta), wirejson.Into("message", &m.message),
		wirejson.Into("content", &m.content), wirejson.Into("text", &m.text), wirejson.Into("tool_calls", &m.toolCalls),
		wirejson.Into("function_call", &m.functionCall), wirejson.Into("function", &m.function))
	return m
}

// dispatch finds the shape of an object by its members, and reads the object.
func (in *ingestion) dispatch(choice int, m members) {
	kind := in.readTag(m.kind)
	switch {
	case in.readTag(m.method) != "":
		in.readNotification(choice, in.readTag(m.method), m.params)
	case strings.HasPrefix(kind, "response."):
		in.readResponsesEvent(choice, kind, m)
	case kind != "" && kind != "message":
		in.readItem(choice, m, Input{}, true)
	case m.item.Kind() == wirejson.KindObject:
		in.readItem(choice, readMembers(m.item), Input{}, true)
	case m.choices != nil:
		for v := range m.choices.Values() {
			in.readChatChoice(choice, in.readID(m.id), readMembers(v))
		}
	case m.delta.Kind() == wirejson.KindObject, m.message.Kind() == wirejson.KindObject:
		in.readChatChoice(choice, in.readID(m.id), m)
	case in.readTag(m.callID) != "" && in.readTag(m.tool) != "":
		in.readParsedCall(choice, m, Input{ID: in.readIdentifier(m.callID)}, true)
	case in.readTag(m.callID) != "" && m.delta != nil:
		in.readArgumentsEvent(choice, m, Input{raw: true}, m.delta, SourceFragment)
	case m.response.Kind() == wirejson.KindObject:
		in.readOutputItems(choice, readMembers(m.response).output)
	case m.output != nil:
		in.readOutputItems(choice, m.output)
	case in.opts.message:
		in.readChatMessage(choice, in.readID(m.id), m)
	default:
		in.readChatCalls(choice, m, false)
	}
}

func (in *ingestion) readTag(value wirejson.Value) string {
	text, _ := value.AsText()
	return text
}

// readID reads an id. It returns "" for a value that is not a string or is too long.
func (in *ingestion) readID(value wirejson.Value) string {
	if len(value) > maxNameBytes+len(`""`) {
		return ""
	}
	return in.readTag(value)
}

// readIdentifier reads the name or an id of a call. It returns "" for null. It also returns "" for
// a value of another type and for a text that is too long, and counts these as malformed.
func (in *ingestion) readIdentifier(value wirejson.Value) string {
	id := in.readID(value)
	if id == "" && value.Given() && string(value) != `""` {
		in.countMalformed("a name or an id is not a string, or too long")
	}
	return id
}

// readArguments returns the text of arguments, valid until readArguments is called again, and the source of
// the text: textSource for a string (as the model wrote it), SourceParsed for an object (a backend has
// parsed the text), and SourceNone for other values.
func (in *ingestion) readArguments(value wirejson.Value, textSource Source) (string, Source) {
	switch kind := value.Kind(); {
	case kind == wirejson.KindString && textSource == SourceFragment:
		return value.Part(&in.agg.text), textSource
	case kind == wirejson.KindString:
		return in.readTag(value), textSource
	case kind == wirejson.KindObject:
		return wirejson.Text(value), SourceParsed
	case value.Given():
		in.countMalformed("arguments are neither a string nor an object")
	}
	return "", SourceNone
}

// readNumber reads a whole number that is not negative. It returns -1 for a missing value and for
// null. It also returns -1 for any other value, and counts it as malformed.
func (in *ingestion) readNumber(value wirejson.Value) int64 {
	if !value.Given() {
		return -1
	}
	n, err := strconv.ParseUint(string(value), 10, 64)
	if err != nil || len(value) > 18 {
		in.countMalformed("an index is not a number")
		return -1
	}
	return int64(n)
}
