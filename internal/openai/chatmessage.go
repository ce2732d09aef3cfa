package openai

import (
	"slices"

	"github.com/caddy-codex/caddy-codex/internal/jsontext"
)

func (r *ChatRequest) readMessages(v jsontext.Value) *fault {
	if f := expect(jsontext.KindArray, v); f != nil {
		return f
	}
	r.messages, r.elements = []message{}, 0
	for i, v := range v.Elements() {
		m, f := readMessage(v, i)
		if f != nil {
			return f.at(i)
		}
		if m.role == roleFunction {
			var before *message
			if i > 0 {
				before = &r.messages[i-1]
			}
			if f := answerFunction(&m, before); f != nil {
				return f.in("name").at(i)
			}
		}
		if f := r.count(&m); f != nil {
			return f
		}
		r.messages = append(r.messages, m)
	}
	if len(r.messages) == 0 {
		return wrongValue("must hold at least one message")
	}
	return checkCalls(r.messages)
}

// messageFields are the fields of a message as they stand in the body.
type messageFields struct {
	role, content, refusal, name, toolCalls, toolCallID, functionCall, audio jsontext.Value
}

func readMessageFields(v jsontext.Value) (m messageFields) {
	v.Pick(
		jsontext.Into("role", &m.role),
		jsontext.Into("content", &m.content),
		jsontext.Into("refusal", &m.refusal),
		jsontext.Into("name", &m.name),
		jsontext.Into("tool_calls", &m.toolCalls),
		jsontext.Into("tool_call_id", &m.toolCallID),
		jsontext.Into("function_call", &m.functionCall),
		jsontext.Into("audio", &m.audio),
	)
	return m
}

// readMessage reads the message at an index of the conversation.
func readMessage(v jsontext.Value, index int) (message, *fault) {
	if f := expect(jsontext.KindObject, v); f != nil {
		return message{}, f
	}
	fields := readMessageFields(v)
	if f := expect(jsontext.KindString, fields.role); f != nil {
		return message{}, f.in("role")
	}
	if f := optional(jsontext.KindString, fields.name); f != nil {
		return message{}, f.in("name")
	}
	m := message{role: readRole(fields.role), size: len(v)}
	f := readFields(&m, fields, index)
	return m, f
}

// readFields reads what a message of its role has.
func readFields(m *message, fields messageFields, index int) *fault {
	switch m.role {
	case roleSystem, roleDeveloper, roleUser:
		return readContent(m, fields.content)
	case roleAssistant:
		return readAssistant(m, fields, index)
	case roleTool:
		if f := expectFilled(fields.toolCallID); f != nil {
			return f.in("tool_call_id")
		}
		m.callID = fields.toolCallID
		return readContent(m, fields.content)
	case roleFunction:
		if f := expectFilled(fields.name); f != nil {
			return f.in("name")
		}
		m.callID = fields.name // until the call is known
		return readContent(m, fields.content)
	}
	return wrongValue("must be one of system, developer, user, assistant, tool, function").in("role")
}

// readAssistant reads what only an assistant's message has. One that says nothing
// at all is let through, since clients keep such messages of answers that broke
// off; it leaves no item in the history.
func readAssistant(m *message, fields messageFields, index int) *fault {
	if fields.audio.Given() {
		return unsupported("is not supported: audio cannot be sent to Codex").in("audio")
	}
	if f := optional(jsontext.KindString, fields.refusal); f != nil {
		return f.in("refusal")
	}
	if fields.content.Given() {
		if f := readContent(m, fields.content); f != nil {
			return f
		}
	}
	if m.text != nil && len(m.text.RawText()) == 0 {
		m.text = nil
	}
	addRefusal(m, fields.refusal)
	if f := readCalls(m, fields.toolCalls); f != nil {
		return f.in("tool_calls")
	}
	return readFunctionMessageCall(m, fields.functionCall, index).in("function_call")
}

// addRefusal puts the text of a refusal behind the content.
func addRefusal(m *message, refusal jsontext.Value) {
	switch {
	case !refusal.Given() || len(refusal.RawText()) == 0:
	case m.text == nil && m.content == nil:
		m.text = refusal
	default:
		m.content = append(slices.Collect(m.parts()), part{kind: partText, text: refusal})
		m.text = nil
	}
}
