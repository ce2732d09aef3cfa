package ollama

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// readMessages reads the conversation. A request without messages is not an error: it loads the
// model.
func (r *Request) readMessages(v wirejson.Value) *field.Error {
	if f := field.Optional(wirejson.KindArray, v); f != nil {
		return f
	}
	if r.loads = !v.Given() || v.IsEmptyArray(); r.loads {
		return nil
	}
	h := history{request: r}
	c := wirejson.NewCursor(v)
	c.Enter()
	for ; c.Next(); h.at++ {
		if f := h.message(c); f != nil {
			return f
		}
	}
	if len(r.Messages) == 0 {
		return field.Invalid("must hold at least one message with a content")
	}
	return h.unanswered()
}

// history reads the messages of a conversation, and finds the call of each result: by the id of the
// call if the client keeps ids, or by the name of the tool, or else by the order of the calls.
type history struct {
	request *Request
	at      int  // the index of the message that is being read
	begun   bool // the conversation has begun: a user's or assistant's message was read

	made  int               // the index of the newest message with calls; the fields below are about them
	calls []openCall        // the calls, in their order
	left  int               // how many calls have no result
	next  int               // all calls before this index have results
	ids   map[string]int    // the indexes of the calls, by their ids
	names map[string]*[]int // the indexes of the calls of each tool, in their order
}

// openCall is a call of the newest message with calls. It may have its result already.
type openCall struct {
	id       wirejson.Value
	answered bool
}

type messageFields struct{ role, content, images, calls, toolName, callID wirejson.Value }

func (h *history) message(c *wirejson.Cursor) *field.Error {
	var m messageFields
	v := c.Pick(wirejson.Into("role", &m.role), wirejson.Into("content", &m.content), wirejson.Into("images", &m.images),
		wirejson.Into("tool_calls", &m.calls), wirejson.Into("tool_name", &m.toolName), wirejson.Into("tool_call_id", &m.callID))
	f := field.Expect(wirejson.KindObject, v)
	if f = cmp.Or(f, field.Expect(wirejson.KindString, m.role).In("role")); f != nil {
		return f.At(h.at)
	}
	if m.content.Kind() == wirejson.KindArray && m.content.IsEmptyArray() {
		m.content = nil // the AI SDK's provider sends this list beside images
	}
	if f := field.Optional(wirejson.KindString, m.content).In("content"); f != nil {
		return f.At(h.at)
	}
	role := prompt.Role(strings.ToLower(m.role.Text()))
	if role == prompt.RoleTool {
		return h.result(&m, len(v)).At(h.at)
	}
	if f := h.unanswered(); f != nil {
		return f
	}
	switch role {
	case prompt.RoleSystem, prompt.RoleDeveloper:
	case prompt.RoleUser, prompt.RoleAssistant:
		h.begun = true
	default:
		return field.Invalid("must be one of system, developer, user, assistant, tool").In("role").At(h.at)
	}
	return h.add(role, &m, len(v)).At(h.at)
}

// add adds a message that is not a result. User's messages that follow each other become one, since
// LangChain sends an image and its text in two messages.
func (h *history) add(role prompt.Role, m *messageFields, size int) *field.Error {
	r := h.request
	if role != prompt.RoleUser {
		m.images = nil // only a user's message can show images to the model
	}
	read := prompt.Message{Role: role, Size: size}
	f := addParts(&read, m.content, m.images)
	if f == nil && role == prompt.RoleAssistant {
		f = h.readCalls(&read, m.calls).In("tool_calls")
	}
	if f = cmp.Or(f, r.Count(&read)); f != nil {
		return f
	}
	last := len(r.Messages) - 1
	switch {
	case role == prompt.RoleUser && last >= 0 && r.Messages[last].Role == prompt.RoleUser:
		before := &r.Messages[last]
		before.Content = append(before.Content, read.Content...)
		if before.Size += size; len(before.Content) > 0 {
			before.Text = nil
		}
	case role == prompt.RoleAssistant && read.Empty() && len(read.Calls) == 0: // the answer broke off
	default:
		if read.Empty() && role != prompt.RoleAssistant {
			read.Text = prompt.NoText
		}
		r.Messages = append(r.Messages, read)
	}
	return nil
}

// readCalls reads the calls of a message. A call without an id, or with an id that another call
// has, gets an id made from its position in the conversation.
func (h *history) readCalls(m *prompt.Message, v wirejson.Value) *field.Error {
	h.made, h.calls, h.left, h.next = h.at, h.calls[:0], 0, 0
	h.ids, h.names = make(map[string]int), make(map[string]*[]int)
	f := field.Elements(v, prompt.MaxItems, prompt.AllItems, func(i int, v wirejson.Value) *field.Error {
		var id, function, name, arguments wirejson.Value
		f := field.Object(v, wirejson.Into("id", &id), wirejson.Into("function", &function))
		f = cmp.Or(f, field.Optional(wirejson.KindString, id).In("id"))
		if f == nil {
			f = field.Object(function, wirejson.Into("name", &name), wirejson.Into("arguments", &arguments)).In("function")
		}
		if f != nil {
			return f
		}
		call := prompt.Call{ID: id}
		if f := prompt.ReadCalledName(&call.Name, name).In("name").In("function"); f != nil {
			return f
		}
		if call.Arguments, f = readArguments(arguments); f != nil {
			return f.In("arguments").In("function")
		}
		known := false
		if id.Given() {
			_, known = h.ids[id.Text()]
		}
		if !id.Given() || id.Is("") || known {
			call.ID = wirejson.Value(`"call_` + strconv.Itoa(h.at) + "_" + strconv.Itoa(i) + `"`)
		}
		h.open(call.ID, name.Text())
		m.Calls = append(m.Calls, call)
		return nil
	})
	h.left = len(h.calls)
	return f
}

// open adds a call that waits for its result.
func (h *history) open(id wirejson.Value, name string) {
	h.ids[id.Text()] = len(h.calls)
	if h.names[name] == nil {
		h.names[name] = new([]int)
	}
	of := h.names[name]
	*of = append(*of, len(h.calls))
	h.calls = append(h.calls, openCall{id: id})
}

// readArguments returns the arguments of a call, as a JSON string that contains their JSON.
func readArguments(v wirejson.Value) (wirejson.Value, *field.Error) {
	switch v.Kind() {
	case wirejson.KindAbsent, wirejson.KindNull:
		return wirejson.Value(`"{}"`), nil
	case wirejson.KindString:
		return v, nil
	}
	return wirejson.AppendString(nil, []byte(v)), field.Expect(wirejson.KindObject, v)
}

// result reads the result of a call. Clients cut long histories, which may then begin with results
// whose calls are cut off. Such results are left out.
func (h *history) result(m *messageFields, size int) *field.Error {
	f := cmp.Or(field.Optional(wirejson.KindString, m.callID).In("tool_call_id"), field.Optional(wirejson.KindString, m.toolName).In("tool_name"))
	if f != nil {
		return f
	}
	if h.left == 0 {
		if !h.begun {
			return nil
		}
		return field.Invalid("there is no call in the assistant message before that waits for a result")
	}
	at := h.callOf(m)
	h.calls[at].answered = true
	h.left--
	read := prompt.Message{Role: prompt.RoleTool, CallID: h.calls[at].id, Size: size}
	if f := addParts(&read, m.content, m.images); f != nil {
		return f
	}
	switch {
	case read.Empty():
		read.Text = prompt.NoText
	case len(read.Content) == 1 && read.Content[0].Text != nil:
		read.Text, read.Content = read.Content[0].Text, nil
	}
	h.request.Messages = append(h.request.Messages, read)
	return h.request.Count(&read)
}

// callOf returns the index of the call to which a result belongs. At least one call must have no
// result yet.
func (h *history) callOf(m *messageFields) int {
	if m.callID.Given() {
		if at, ok := h.ids[m.callID.Text()]; ok && !h.calls[at].answered {
			return at
		}
	}
	if m.toolName.Given() {
		if of := h.names[m.toolName.Text()]; of != nil {
			if at, ok := h.first(of); ok {
				return at
			}
		}
	}
	return h.oldest()
}

// oldest returns the index of the first call that has no result. At least one call must have no
// result.
func (h *history) oldest() int {
	for h.calls[h.next].answered {
		h.next++
	}
	return h.next
}

// first returns the index of the first call in a list that has no result. It removes the calls before
// this one from the list.
func (h *history) first(calls *[]int) (at int, ok bool) {
	for len(*calls) > 0 {
		if at = (*calls)[0]; !h.calls[at].answered {
			return at, true
		}
		*calls = (*calls)[1:]
	}
	return 0, false
}

// unanswered returns an error if a call has no result. Codex would silently invent a result.
func (h *history) unanswered() *field.Error {
	if h.left == 0 {
		return nil
	}
	return field.Invalid("must be followed by a message of the role tool for each call").At(h.oldest()).In("tool_calls").At(h.made)
}
