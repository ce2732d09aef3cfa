package prompt

import (
	"cmp"
	"encoding/json"
	"unicode/utf8"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// itemOverhead is about how many bytes an item has in addition to its message.
const itemOverhead = 96

// historyItems returns the messages as items of the Responses API. Texts stay JSON strings.
func historyItems(messages []Message, names ToolNames) []json.RawMessage {
	if len(messages) == 0 {
		return nil
	}
	size := itemOverhead * len(messages)
	for i := range messages {
		size += messages[i].Size
	}
	h := historyBuilder{names, make([]byte, 0, size), make([]json.RawMessage, 0, len(messages))}
	for i := range messages {
		h.addMessage(&messages[i])
	}
	return h.items
}

// historyBuilder collects items in one buffer. When the buffer grows, earlier items keep the old buffer.
type historyBuilder struct {
	names ToolNames
	buf   []byte
	items []json.RawMessage
}

func (h *historyBuilder) addItem(buf []byte) {
	h.items = append(h.items, buf[len(h.buf):len(buf):len(buf)]) // what was appended to h.buf
	h.buf = buf
}

func (h *historyBuilder) addMessage(m *Message) {
	switch m.Role {
	case RoleTool:
		h.addItem(m.appendResult(h.buf))
	case RoleItem:
		h.addItem(append(h.buf, m.Item...))
	case RoleUser:
		h.addItem(m.appendMessage(h.buf, "user", "input_text"))
	case RoleSystem, RoleDeveloper: // Codex would silently drop an item with the role system
		h.addItem(m.appendMessage(h.buf, "developer", "input_text"))
	case RoleAssistant:
		if !m.Empty() {
			h.addItem(m.appendMessage(h.buf, "assistant", "output_text"))
		}
		for i := range m.Calls {
			h.addItem(m.Calls[i].appendCall(h.buf, h.names.Codex(m.Calls[i].Name)))
		}
	}
}

// appendMessage appends a message item whose text parts are of the given type.
func (m *Message) appendMessage(dst []byte, role, textType string) []byte {
	dst = append(append(append(dst, `{"type":"message","role":"`...), role...), `","content":`...)
	dst = m.AppendParts(dst, textType, "", defaultDetail)
	if m.Phase != "" {
		dst = append(append(append(dst, `,"phase":"`...), m.Phase...), '"')
	}
	return append(dst, '}')
}

// appendResult appends a function_call_output item: a string if the content is one text. An image without
// a detail gets [ResultDetail]. Codex uses the same form for a result that comes while a turn waits. With
// another form, the provider would not find the history in its cache.
func (m *Message) appendResult(dst []byte) []byte {
	dst = append(append(append(dst, `{"type":"function_call_output","call_id":`...), m.CallID...), `,"output":`...)
	switch {
	case m.Text != nil:
		dst = append(dst, m.Text...)
	case len(m.Content) == 1 && m.Content[0].Text != nil:
		dst = append(dst, m.Content[0].Text...)
	default:
		dst = m.AppendParts(dst, "input_text", "", ResultDetail)
	}
	return append(dst, '}')
}

// appendCall appends a function_call item. Empty arguments become an empty object, since models read JSON.
func (c *Call) appendCall(dst []byte, name string) []byte {
	dst = append(append(append(dst, `{"type":"function_call","call_id":`...), c.ID...), `,"name":`...)
	dst = append(wirejson.AppendString(dst, name), `,"arguments":`...)
	if len(c.Arguments.RawText()) == 0 {
		return append(dst, `"{}"}`...)
	}
	return append(append(dst, c.Arguments...), '}')
}

// AppendParts appends the content as an array of the Responses API's parts. A text gets the type textType
// and the members textMembers, each after a comma. An image without a detail gets the given detail, or
// none if that is empty. Texts and URLs are copied from the body as they are.
func (m *Message) AppendParts(dst []byte, textType, textMembers, detail string) []byte {
	separator := ""
	dst = append(dst, '[')
	for p := range m.Parts() {
		dst = append(dst, separator...)
		separator = ","
		if p.Text != nil {
			dst = append(append(append(dst, `{"type":"`...), textType...), `","text":`...)
			dst = append(append(append(dst, p.Text...), textMembers...), '}')
			continue
		}
		dst = p.appendURL(append(dst, `{"type":"input_image","image_url":`...))
		if d := cmp.Or(p.Detail, detail); d != "" {
			dst = append(append(append(dst, `,"detail":"`...), d...), '"')
		}
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

// splitInput splits off the turn's input: the last message, if it is a user's and not too long.
// Otherwise all messages are history, and input is empty but not nil.
func splitInput(messages []Message) (history []Message, input []codexrpc.UserInput) {
	last := len(messages) - 1
	if last < 0 || messages[last].Role != RoleUser || messages[last].chars() > maxInputChars {
		return messages, []codexrpc.UserInput{}
	}
	for p := range messages[last].Parts() {
		if p.URL != nil {
			input = append(input, codexrpc.UserInput{Type: "image", URL: p.imageURL(), Detail: cmp.Or(p.Detail, defaultDetail)})
		} else {
			input = append(input, codexrpc.UserInput{Type: "text", Text: p.Text.Text()})
		}
	}
	return messages[:last], input
}

// chars returns the number of characters (Unicode code points) of the texts of a message. If the
// texts have at most maxInputChars bytes, chars returns the number of bytes instead.
func (m *Message) chars() int {
	var bytes, chars int
	for p := range m.Parts() {
		bytes += len(p.Text)
	}
	if bytes <= maxInputChars {
		return bytes // no more than maxInputChars, which is all that the caller checks
	}
	for p := range m.Parts() {
		if p.Text != nil {
			chars += utf8.RuneCountInString(p.Text.Text())
		}
	}
	return chars
}
