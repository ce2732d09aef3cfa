package chat

import (
	"cmp"
	"slices"

	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

func (r *Request) readMessages(v wirejson.Value) *field.Error {
	if r.hasInput { // the field input is the conversation, and was read already
		return nil
	}
	if f := field.Expect(wirejson.KindArray, v); f != nil {
		return f
	}
	r.Messages, r.Elements = []prompt.Message{}, 0 // not nil: the field is there
	c := wirejson.NewCursor(v)
	c.Enter()
	for i := 0; c.Next(); i++ {
		r.Messages = append(r.Messages, prompt.Message{})
		m := &r.Messages[i]
		f := readMessage(m, c, i)
		if f == nil && m.Role == prompt.RoleFunction {
			f = toToolMessage(m, r.Messages[:i]).In("name")
		}
		if f = cmp.Or(f.At(i), r.Count(m)); f != nil {
			return f
		}
	}
	if len(r.Messages) == 0 {
		return field.Invalid("must hold at least one message")
	}
	return checkCalls(r.Messages)
}

type messageFields struct {
	role, content, refusal, name, toolCalls, toolCallID, functionCall, audio, images wirejson.Value
}

// readMessage reads the message at the cursor into m, which is empty. index is the index of the message.
func readMessage(m *prompt.Message, c *wirejson.Cursor, index int) *field.Error {
	var fields messageFields
	v := c.Pick(wirejson.Into("role", &fields.role), wirejson.Into("content", &fields.content),
		wirejson.Into("refusal", &fields.refusal), wirejson.Into("name", &fields.name),
		wirejson.Into("tool_calls", &fields.toolCalls), wirejson.Into("tool_call_id", &fields.toolCallID),
		wirejson.Into("function_call", &fields.functionCall), wirejson.Into("audio", &fields.audio),
		wirejson.Into("images", &fields.images))
	f := cmp.Or(field.Expect(wirejson.KindObject, v), field.Expect(wirejson.KindString, fields.role).In("role"),
		field.Optional(wirejson.KindString, fields.name).In("name"))
	if f != nil {
		return f
	}
	switch m.Role, m.Size = prompt.ReadRole(fields.role), len(v); m.Role {
	case prompt.RoleSystem, prompt.RoleDeveloper, prompt.RoleUser:
		return readContent(m, fields.content)
	case prompt.RoleAssistant:
		return readAssistant(m, &fields, index)
	case prompt.RoleTool:
		m.CallID = fields.toolCallID
		return cmp.Or(field.NonEmpty(m.CallID).In("tool_call_id"), readContent(m, fields.content))
	case prompt.RoleFunction:
		m.CallID = fields.name // toToolMessage replaces this name by the id of the call
		return cmp.Or(field.NonEmpty(m.CallID).In("name"), readContent(m, fields.content))
	}
	return field.Invalid("must be one of system, developer, user, assistant, tool, function").In("role")
}

// readAssistant reads the fields of an assistant's message. It accepts an empty message, which
// clients send after an answer that broke off. An empty message adds nothing to the history.
func readAssistant(m *prompt.Message, fields *messageFields, index int) *field.Error {
	f := cmp.Or(field.Refuse(fields.audio, "audio cannot be sent to Codex").In("audio"), field.Optional(wirejson.KindString, fields.refusal).In("refusal"))
	if f == nil && fields.content.Given() {
		f = readContent(m, fields.content)
	}
	if f != nil {
		return f
	}
	if m.Text != nil && len(m.Text.RawText()) == 0 {
		m.Text = nil
	}
	addRefusal(m, fields.refusal)
	if v := fields.images; v.Given() && !(v.Kind() == wirejson.KindArray && v.IsEmptyArray()) {
		return field.Unsupported("are not passed on: send a picture in a message of the user").In("images")
	}
	return cmp.Or(readCalls(m, fields.toolCalls).In("tool_calls"), readMessageFunctionCall(m, fields.functionCall, index).In("function_call"))
}

func addRefusal(m *prompt.Message, refusal wirejson.Value) {
	switch {
	case !refusal.Given() || len(refusal.RawText()) == 0:
	case m.Text == nil && m.Content == nil:
		m.Text = refusal
	default:
		m.Content = append(slices.Collect(m.Parts()), prompt.Part{Text: refusal})
		m.Text = nil
	}
}

// readContent reads a string or a list of parts. null and [] are empty texts: clients write these.
func readContent(m *prompt.Message, v wirejson.Value) (f *field.Error) {
	if v.Kind() != wirejson.KindNull {
		f = m.ReadContent(v, readPart).In("content")
	}
	m.Fill()
	return f
}

func readPart(m *prompt.Message, v wirejson.Value) (prompt.Part, *field.Error) {
	var kind, text, refusal, image, url, detail wirejson.Value
	f := field.Typed(&kind, v, wirejson.Into("text", &text), wirejson.Into("refusal", &refusal), wirejson.Into("image_url", &image))
	switch {
	case f != nil:
		return prompt.Part{}, f
	case kind.Is("text"):
		return prompt.TextPart("text", text)
	case kind.Is("refusal") && m.Role == prompt.RoleAssistant:
		return prompt.TextPart("refusal", refusal)
	case !kind.Is("image_url") || m.Role != prompt.RoleUser && m.Role != prompt.RoleTool:
		return prompt.Part{}, unknownPart(m, kind.Text()).In("type")
	}
	notObject := field.Object(image, wirejson.Into("url", &url), wirejson.Into("detail", &detail))
	p, f := prompt.ImagePart(url, detail, "url")
	return p, cmp.Or(notObject, f).In("image_url")
}

func unknownPart(m *prompt.Message, name string) *field.Error {
	switch name {
	case "input_audio":
		return field.Unsupported("'input_audio' is not supported: audio cannot be sent to Codex")
	case "file":
		return field.Unsupported("'file' is not supported: send its text, or an image of it")
	case "input_text", "output_text", "input_image", "input_file":
		return field.Invalid("'%s' belongs to POST /v1/responses; here it is text or image_url", name)
	}
	want := "text"
	switch m.Role {
	case prompt.RoleUser, prompt.RoleTool:
		want = "text or image_url"
	case prompt.RoleAssistant:
		want = "text or refusal"
	}
	return field.Invalid("must be %s in a message of the role %s", want, m.Role)
}
