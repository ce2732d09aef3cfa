package ollama

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// readMessages reads the conversation. None is no error: such a request loads the model.
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

// history reads the messages of a conversation, and finds the call of each result: by its id if the
// client keeps ids, else by the name of the tool, else by the order of the calls.
type history struct {
	request *Request
	at      int  // index of the message under way
	begun   bool // a message was read that is neither an instruction nor a result

	made  int               // index of the message with the calls below
	calls []openCall        // of that message
	left  int               // how many of them have no result
	next  int               // the calls before this index have results
	ids   map[string]int    // the indexes of calls by their ids
	names map[string]*[]int // the indexes of the calls of each tool, in their order
}

// openCall is a call that waits for its result, or has one.
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
		m.content = nil // of the AI SDK's provider, beside images
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

// add adds a message that is no result. Messages of the user's that follow each other become one:
// LangChain sends an image without its text.
func (h *history) add(role prompt.Role, m *messageFields, size int) *field.Error {
	r := h.request
	if role != prompt.RoleUser {
		m.images = nil // they would be the model's own
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
	case role == prompt.RoleAssistant && read.Empty() && len(read.Calls) == 0: // it broke off
	default:
		if read.Empty() && role != prompt.RoleAssistant {
			read.Text = prompt.NoText
		}
		r.Messages = append(r.Messages, read)
	}
	return nil
}

// readCalls reads the calls of a message. A call without an id of its own gets one by its place.
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

// readArguments returns the arguments of a call as a JSON string with their text.
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
// of calls that are not there any more: these are left out.
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

// callOf returns the index of the open call to which a result belongs. There is one.
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

// oldest returns the index of the first call that has no result. There is one.
func (h *history) oldest() int {
	for h.calls[h.next].answered {
		h.next++
	}
	return h.next
}

// first returns the first of some calls that has no result, and drops the calls before it.
func (h *history) first(calls *[]int) (at int, ok bool) {
	for len(*calls) > 0 {
		if at = (*calls)[0]; !h.calls[at].answered {
			return at, true
		}
		*calls = (*calls)[1:]
	}
	return 0, false
}

// unanswered returns an error if a call has no result. Codex would silently invent one.
func (h *history) unanswered() *field.Error {
	if h.left == 0 {
		return nil
	}
	return field.Invalid("must be followed by a message of the role tool for each call").At(h.oldest()).In("tool_calls").At(h.made)
}
