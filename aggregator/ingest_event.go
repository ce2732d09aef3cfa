package aggregator

import (
	"strconv"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// members holds the raw JSON of the members of an object. It has each member that any shape uses. A
// missing member is "".
type members struct {
	kind, method, id, status, index, outputIndex, sequence string
	callID, itemID, name, tool, arguments                  string // of calls
	params, item, output, response                         string // containers of items
	choices, delta, message                                string // containers of chat bodies
	content, text, toolCalls, functionCall, function       string // of chat bodies
}

// readMembers reads an object in one pass.
func readMembers(object string) (m members) {
	for w := wirejson.Walk(object); w.Next(); {
		switch w.Key {
		case "type":
			m.kind = w.Value
		case "method":
			m.method = w.Value
		case "id":
			m.id = w.Value
		case "status":
			m.status = w.Value
		case "index":
			m.index = w.Value
		case "output_index":
			m.outputIndex = w.Value
		case "sequence_number":
			m.sequence = w.Value
		case "call_id", "callId":
			m.callID = w.Value
		case "item_id", "itemId":
			m.itemID = w.Value
		case "name":
			m.name = w.Value
		case "tool":
			m.tool = w.Value
		case "arguments":
			m.arguments = w.Value
		case "params":
			m.params = w.Value
		case "item":
			m.item = w.Value
		case "output":
			m.output = w.Value
		case "response":
			m.response = w.Value
		case "choices":
			m.choices = w.Value
		case "delta":
			m.delta = w.Value
		case "message":
			m.message = w.Value
		case "content":
			m.content = w.Value
		case "text":
			m.text = w.Value
		case "tool_calls":
			m.toolCalls = w.Value
		case "function_call":
			m.functionCall = w.Value
		case "function":
			m.function = w.Value
		}
	}
	return m
}

// dispatch finds the shape of an object by its members, and reads the object.
func (in *ingestion) dispatch(choice int, m members) {
	kind := in.readTag(m.kind)
	switch {
	case in.readTag(m.method) != "":
		in.readNotification(choice, in.readTag(m.method), readMembers(m.params))
	case strings.HasPrefix(kind, "response."):
		in.readResponsesEvent(choice, kind, m)
	case kind != "" && kind != "message":
		in.readItem(choice, m, Input{}, true)
	case wirejson.IsObject(m.item):
		in.readItem(choice, readMembers(m.item), Input{}, true)
	case m.choices != "":
		for w := wirejson.Walk(m.choices); w.Next(); {
			in.readChatChoice(choice, in.readID(m.id), readMembers(w.Value))
		}
	case wirejson.IsObject(m.delta), wirejson.IsObject(m.message):
		in.readChatChoice(choice, in.readID(m.id), m)
	case in.readTag(m.callID) != "" && in.readTag(m.tool) != "":
		in.readToolCall(choice, m)
	case in.readTag(m.callID) != "" && m.delta != "":
		in.readArgumentsEvent(choice, m, Input{raw: true}, m.delta, SourceFragment)
	case wirejson.IsObject(m.response):
		in.readOutputItems(choice, readMembers(m.response).output)
	case m.output != "":
		in.readOutputItems(choice, m.output)
	case in.opts.message:
		in.readChatMessage(choice, in.readID(m.id), m)
	default:
		in.readChatCalls(choice, m, false)
	}
}

// readTag reads a string that identifies a shape, such as a type. It returns "" for other values.
func (in *ingestion) readTag(value string) string {
	text, _ := wirejson.AsString(value)
	return text.String()
}

// readID reads an id. It returns "" for a value that is not a string or is too long.
func (in *ingestion) readID(value string) string {
	text, ok := wirejson.AsString(value)
	if !ok || text.Size() > maxNameBytes {
		return ""
	}
	return text.String()
}

// readIdentifier reads the name or an id of a call. It returns "" for null. It also returns "" for
// a value of another type and for a text that is too long, and counts these as malformed.
func (in *ingestion) readIdentifier(value string) string {
	id := in.readID(value)
	if id == "" && value != "" && value != "null" && value != `""` {
		in.countMalformed("a name or an id is not a string, or too long")
	}
	return id
}

// readArguments returns the text of arguments and its source. A string is text as the model wrote
// it, and its source is textSource. An object was parsed by a backend, and its source is
// SourceParsed. The source of any other value is SourceNone. The text is valid until the next call
// of readArguments.
func (in *ingestion) readArguments(value string, textSource Source) (string, Source) {
	text, ok := wirejson.AsString(value)
	switch {
	case ok && textSource == SourceFragment:
		return text.Part(&in.agg.text), textSource
	case ok:
		return text.String(), textSource
	case wirejson.IsObject(value):
		return value, SourceParsed
	case value != "" && value != "null":
		in.countMalformed("arguments are neither a string nor an object")
	}
	return "", SourceNone
}

// readNumber reads a whole number that is not negative. It returns -1 for a missing value and for
// null. It also returns -1 for any other value, and counts it as malformed.
func (in *ingestion) readNumber(value string) int64 {
	if value == "" || value == "null" {
		return -1
	}
	n, err := strconv.ParseUint(value, 10, 64)
	if err != nil || len(value) > 18 {
		in.countMalformed("an index is not a number")
		return -1
	}
	return int64(n)
}
