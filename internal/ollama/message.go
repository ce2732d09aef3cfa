package ollama

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// readMessages reads the conversation. A request without messages only loads or unloads a model.
func (r *Request) readMessages(v wirejson.Value) *field.Error {
	if f := field.Optional(wirejson.KindArray, v); f != nil {
		return f
	}
	if r.onlyLoads = !v.Given() || v.IsEmptyArray(); r.onlyLoads {
		return nil
	}
	h := history{request: r}
	c := wirejson.NewCursor(v)
	c.Enter()
	for ; c.Next(); h.messageIndex++ {
		if f := h.readMessage(c); f != nil {
			return f
		}
	}
	if len(r.Messages) == 0 {
		return field.Invalid("must hold at least one message with a content")
	}
	return h.checkResults()
}

// history reads the messages of a conversation. It finds the call of each result by the id of the call, by
// the name of the tool, or by the order of the calls, since some clients send no ids.
type history struct {
	request      *Request
	messageIndex int  // the index of the message that is being read
	started      bool // a user's or an assistant's message was read; false: results are left out, see readResult

	callMessage   int               // the index of the newest assistant's message; the fields below are about its calls
	calls         []callState       // in their order
	indexByID     map[string]int    // by the id of a call: its index in calls
	indexesByName map[string]*[]int // by the name of a tool: the indexes of its calls; answered calls may be missing
	indexes       []int             // the indexes of the calls of all tools; answered calls may be missing
}

// callState is a call of the newest assistant's message.
type callState struct {
	id       wirejson.Value
	answered bool // the call has a result
}

type messageFields struct{ role, content, images, calls, toolName, callID wirejson.Value }

func (h *history) readMessage(c *wirejson.Cursor) *field.Error {
	var m messageFields
	v := c.Pick(wirejson.Into("role", &m.role), wirejson.Into("content", &m.content), wirejson.Into("images", &m.images),
		wirejson.Into("tool_calls", &m.calls), wirejson.Into("tool_name", &m.toolName), wirejson.Into("tool_call_id", &m.callID))
	if m.content.Kind() == wirejson.KindArray && m.content.IsEmptyArray() {
		m.content = nil // the AI SDK's provider sends an empty list as the content of a message with images
	}
	f := cmp.Or(field.Expect(wirejson.KindObject, v), field.Expect(wirejson.KindString, m.role).In("role"),
		field.Optional(wirejson.KindString, m.content).In("content"))
	if f != nil {
		return f.At(h.messageIndex)
	}
	role := prompt.Role(strings.ToLower(m.role.Text()))
	if role == prompt.RoleTool {
		return h.readResult(&m, len(v)).At(h.messageIndex)
	}
	if f := h.checkResults(); f != nil {
		return f
	}
	switch role {
	case prompt.RoleSystem, prompt.RoleDeveloper:
	case prompt.RoleUser, prompt.RoleAssistant:
		h.started = true
	default:
		return field.Invalid("must be one of system, developer, user, assistant, tool").In("role").At(h.messageIndex)
	}
	return h.addMessage(role, &m, len(v)).At(h.messageIndex)
}

// addMessage adds a message that is not a result. Successive messages of the user become one
// message, since LangChain sends an image and its text in two messages.
func (h *history) addMessage(role prompt.Role, m *messageFields, size int) *field.Error {
	r := h.request
	if role != prompt.RoleUser {
		m.images = nil // only a user's message can show images to the model
	}
	message := prompt.Message{Role: role, Size: size}
	f := addParts(&message, m.content, m.images)
	if f == nil && role == prompt.RoleAssistant {
		f = h.readCalls(&message, m.calls).In("tool_calls")
	}
	if f = cmp.Or(f, r.Count(&message)); f != nil {
		return f
	}
	last := len(r.Messages) - 1
	switch {
	case role == prompt.RoleUser && last >= 0 && r.Messages[last].Role == prompt.RoleUser:
		previous := &r.Messages[last]
		previous.Content = append(previous.Content, message.Content...)
		if previous.Size += size; len(previous.Content) > 0 {
			previous.Text = nil // an empty message had NoText
		}
	case role == prompt.RoleAssistant && message.Empty() && len(message.Calls) == 0: // an answer that broke off is left out
	default:
		if role != prompt.RoleAssistant {
			message.Fill()
		}
		r.Messages = append(r.Messages, message)
	}
	return nil
}

// readCalls reads the calls of a message. A call without an id, or with the id of an earlier call
// in the message, gets an id made from its position in the conversation.
func (h *history) readCalls(m *prompt.Message, v wirejson.Value) *field.Error {
	h.callMessage, h.calls, h.indexes = h.messageIndex, h.calls[:0], nil
	h.indexByID, h.indexesByName = make(map[string]int), make(map[string]*[]int)
	return field.Elements(v, prompt.MaxItems, prompt.AllItems, func(i int, v wirejson.Value) *field.Error {
		var id, function, name, arguments wirejson.Value
		f := field.Object(v, wirejson.Into("id", &id), wirejson.Into("function", &function))
		f = cmp.Or(f, field.Optional(wirejson.KindString, id).In("id"))
		inFunction := field.Object(function, wirejson.Into("name", &name), wirejson.Into("arguments", &arguments))
		call := prompt.Call{ID: id}
		inFunction = cmp.Or(inFunction, prompt.ReadCalledName(&call.Name, name).In("name"), readArguments(&call.Arguments, arguments).In("arguments"))
		if f = cmp.Or(f, inFunction.In("function")); f != nil {
			return f
		}
		known := false
		if id.Given() {
			_, known = h.indexByID[id.Text()]
		}
		if !id.Given() || id.Is("") || known {
			call.ID = wirejson.Value(`"call_` + strconv.Itoa(h.messageIndex) + "_" + strconv.Itoa(i) + `"`)
		}
		h.addCall(call.ID, name.Text())
		m.Calls = append(m.Calls, call)
		return nil
	})
}

func (h *history) addCall(id wirejson.Value, name string) {
	h.indexByID[id.Text()] = len(h.calls)
	if h.indexesByName[name] == nil {
		h.indexesByName[name] = new([]int)
	}
	for _, indexes := range []*[]int{h.indexesByName[name], &h.indexes} {
		*indexes = append(*indexes, len(h.calls))
	}
	h.calls = append(h.calls, callState{id: id})
}

// readArguments reads the arguments of a call. They become a JSON string that contains their JSON.
func readArguments(arguments *wirejson.Value, v wirejson.Value) *field.Error {
	switch *arguments = v; v.Kind() {
	case wirejson.KindAbsent, wirejson.KindNull:
		*arguments = wirejson.Value(`"{}"`)
	case wirejson.KindString:
	default:
		*arguments = wirejson.AppendString(nil, []byte(v))
		return field.Expect(wirejson.KindObject, v)
	}
	return nil
}

// readResult reads the result of a call. Results before the first message of the user or assistant are left
// out: clients cut off the beginning of a long history, and with it the calls of these results.
func (h *history) readResult(m *messageFields, size int) *field.Error {
	f := cmp.Or(field.Optional(wirejson.KindString, m.callID).In("tool_call_id"), field.Optional(wirejson.KindString, m.toolName).In("tool_name"))
	if f != nil {
		return f
	}
	index, waits := h.callIndex(m)
	switch {
	case !waits && !h.started:
		return nil
	case !waits:
		return field.Invalid("there is no call in the assistant message before that waits for a result")
	}
	h.calls[index].answered = true
	message := prompt.Message{Role: prompt.RoleTool, CallID: h.calls[index].id, Size: size}
	f = addParts(&message, m.content, m.images)
	message.Fill()
	h.request.Messages = append(h.request.Messages, message)
	return cmp.Or(f, h.request.Count(&message))
}

// callIndex returns the index of a result's call. It reports false if all calls have results.
func (h *history) callIndex(m *messageFields) (at int, ok bool) {
	if m.callID.Given() {
		if at, ok := h.indexByID[m.callID.Text()]; ok && !h.calls[at].answered {
			return at, true
		}
	}
	if m.toolName.Given() {
		if at, ok := h.firstUnanswered(h.indexesByName[m.toolName.Text()]); ok {
			return at, true
		}
	}
	return h.firstUnanswered(&h.indexes)
}

// firstUnanswered returns the first index in indexes whose call has no result, and removes the indexes
// before this index. If all calls have results, or indexes is nil, it reports false.
func (h *history) firstUnanswered(indexes *[]int) (at int, ok bool) {
	for indexes != nil && len(*indexes) > 0 {
		if at = (*indexes)[0]; !h.calls[at].answered {
			return at, true
		}
		*indexes = (*indexes)[1:]
	}
	return 0, false
}

// checkResults fails if a call still has no result: Codex would silently invent one.
func (h *history) checkResults() *field.Error {
	at, waits := h.firstUnanswered(&h.indexes)
	if !waits {
		return nil
	}
	return field.Invalid("must be followed by a message of the role tool for each call").At(at).In("tool_calls").At(h.callMessage)
}
