package openai

import (
	"github.com/caddy-codex/caddy-codex/internal/jsontext"
	"iter"
	"slices"
)

// role is who a message is from.
type role string

const (
	roleSystem    role = "system"
	roleDeveloper role = "developer"
	roleUser      role = "user"
	roleAssistant role = "assistant"
	roleTool      role = "tool"
	roleFunction  role = "function" // as tool, of clients that know functions only
	// roleItem is an item of the Responses API that goes to Codex as it is.
	roleItem role = "item"
)

// instructs reports whether the role gives instructions to the model.
func (r role) instructs() bool { return r == roleSystem || r == roleDeveloper }

// readRole spares the known roles a string of their own.
func readRole(v jsontext.Value) role {
	for _, known := range []role{roleUser, roleAssistant, roleTool, roleSystem, roleDeveloper, roleFunction} {
		if v.Is(string(known)) {
			return known
		}
	}
	return role(v.Text())
}

// message is one message of the conversation (ChatCompletionRequestMessage).
type message struct {
	role    role
	text    jsontext.Value // the content if it is a string, or else the refusal
	content []part         // the content if it is parts
	calls   []toolCall     // of an assistant
	callID  jsontext.Value // of a tool's result: the call that it answers
	item    jsontext.Value // of roleItem: the item itself
	phase   string         // of an assistant: commentary, final_answer, or empty
	size    int            // bytes of the message in the body
}

// parts are the parts of the content. A string is one text part; an assistant's
// content that is absent, null or empty has none.
func (m *message) parts() iter.Seq[part] {
	return func(yield func(part) bool) {
		if m.text != nil {
			yield(part{kind: partText, text: m.text})
			return
		}
		for _, p := range m.content {
			if !yield(p) {
				return
			}
		}
	}
}

// maxItems is how many elements a conversation may have: messages or items, the
// parts of their contents, and calls. Each takes up to a few hundred bytes here,
// however small it is in the body; conversations have thousands at most.
const maxItems = 100_000

func tooManyItems() *fault {
	return wrongValue("must hold at most %d elements, counting parts and calls", maxItems)
}

// count counts the elements of a message. The fault is that there are too many.
func (c *conversation) count(m *message) *fault {
	if c.elements += 1 + len(m.content) + len(m.calls); c.elements > maxItems {
		return tooManyItems()
	}
	return nil
}

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
			if f := m.answerFunction(before); f != nil {
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
	f := m.readFields(fields, index)
	return m, f
}

// readFields reads what a message of its role has.
func (m *message) readFields(fields messageFields, index int) *fault {
	switch m.role {
	case roleSystem, roleDeveloper, roleUser:
		return m.readContent(fields.content)
	case roleAssistant:
		return m.readAssistant(fields, index)
	case roleTool:
		if f := expectFilled(fields.toolCallID); f != nil {
			return f.in("tool_call_id")
		}
		m.callID = fields.toolCallID
		return m.readContent(fields.content)
	case roleFunction:
		if f := expectFilled(fields.name); f != nil {
			return f.in("name")
		}
		m.callID = fields.name // until the call is known
		return m.readContent(fields.content)
	}
	return wrongValue("must be one of system, developer, user, assistant, tool, function").in("role")
}

// readAssistant reads what only an assistant's message has. One that says nothing
// at all is let through, since clients keep such messages of answers that broke
// off; it leaves no item in the history.
func (m *message) readAssistant(fields messageFields, index int) *fault {
	if fields.audio.Given() {
		return unsupported("is not supported: audio cannot be sent to Codex").in("audio")
	}
	if f := optional(jsontext.KindString, fields.refusal); f != nil {
		return f.in("refusal")
	}
	if fields.content.Given() {
		if f := m.readContent(fields.content); f != nil {
			return f
		}
	}
	if m.text != nil && len(m.text.RawText()) == 0 {
		m.text = nil
	}
	m.addRefusal(fields.refusal)
	if f := m.readCalls(fields.toolCalls); f != nil {
		return f.in("tool_calls")
	}
	return m.readFunctionMessageCall(fields.functionCall, index).in("function_call")
}

// addRefusal puts the text of a refusal behind the content.
func (m *message) addRefusal(refusal jsontext.Value) {
	switch {
	case !refusal.Given() || len(refusal.RawText()) == 0:
	case m.text == nil && m.content == nil:
		m.text = refusal
	default:
		m.content = append(slices.Collect(m.parts()), part{kind: partText, text: refusal})
		m.text = nil
	}
}

// expectFilled is the fault of a value that is not a string with a text in it.
func expectFilled(v jsontext.Value) *fault {
	if f := expect(jsontext.KindString, v); f != nil {
		return f
	}
	if len(v.RawText()) == 0 {
		return wrongValue("must not be empty")
	}
	return nil
}
