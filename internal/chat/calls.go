package chat

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

func readCalls(m *prompt.Message, v wirejson.Value) *field.Error {
	return field.Elements(v, prompt.MaxItems, prompt.AllItems, func(_ int, v wirejson.Value) *field.Error {
		var call prompt.Call
		var kind, function, custom wirejson.Value
		f := field.Object(v, wirejson.Into("id", &call.ID), wirejson.Into("type", &kind), wirejson.Into("function", &function), wirejson.Into("custom", &custom))
		switch f = cmp.Or(f, field.NonEmpty(call.ID).In("id")); {
		case f != nil:
		case kind.Is("custom"):
			f = readNameAndArguments(&call, custom, "input").In("custom")
			call.Arguments = prompt.CustomArguments(call.Arguments)
		case kind.Given() && !kind.Is("function"):
			f = field.Unsupported("must be 'function' or 'custom'").In("type")
		default:
			f = readNameAndArguments(&call, function, "arguments").In("function")
		}
		m.Calls = append(m.Calls, call)
		return f
	})
}

// readNameAndArguments reads the name and the arguments of a called function, or the name and the
// input of a called custom tool. member is the JSON member that has the arguments or the input.
func readNameAndArguments(c *prompt.Call, v wirejson.Value, member string) *field.Error {
	var name wirejson.Value
	f := field.Object(v, wirejson.Into("name", &name), wirejson.Into(member, &c.Arguments))
	return cmp.Or(f, prompt.ReadCalledName(&c.Name, name).In("name"), field.Expect(wirejson.KindString, c.Arguments).In(member))
}

// wrapCustomInputs restores the arguments of calls of custom tools. The model has written an object that
// contains the input, but some clients send only the input back.
func (r *Request) wrapCustomInputs() {
	if len(r.Forms) == 0 {
		return
	}
	for i := range r.Messages {
		for k := range r.Messages[i].Calls {
			if call := &r.Messages[i].Calls[k]; r.Forms[call.Name] != 0 {
				call.WrapCustomInput()
			}
		}
	}
}

// checkCalls checks that each call of an assistant's message has one result, in the tool messages directly
// after that message. Otherwise Codex would silently invent or drop results. messages is not empty.
func checkCalls(messages []prompt.Message) *field.Error {
	callMessage := 0                      // the index of the last message that was read and is not a result
	pendingCalls := map[string]struct{}{} // the ids of the calls in that message for which no result was read
	for i, m := range messages {
		if m.Role == prompt.RoleTool {
			id := m.CallID.Text()
			if _, ok := pendingCalls[id]; !ok {
				return field.Invalid("there is no call %.64q in the assistant message before that waits for a result", id).
					In("tool_call_id").At(i)
			}
			delete(pendingCalls, id)
			continue
		}
		if f := checkAnswered(&messages[callMessage], pendingCalls); f != nil {
			return f.At(callMessage)
		}
		callMessage = i
		for k, call := range m.Calls {
			id := call.ID.Text()
			if _, twice := pendingCalls[id]; twice {
				return field.Invalid("the id %.64q is used twice", id).In("id").At(k).In("tool_calls").At(i)
			}
			pendingCalls[id] = struct{}{}
		}
	}
	return checkAnswered(&messages[callMessage], pendingCalls).At(callMessage)
}

// maxNamedIDs bounds the ids that are listed in an error about calls without results.
const maxNamedIDs = 5

// checkAnswered returns an error if a message has calls without results. pendingCalls has the ids of these
// calls. The path of the error leads to the first of these calls.
func checkAnswered(m *prompt.Message, pendingCalls map[string]struct{}) *field.Error {
	switch {
	case len(pendingCalls) == 0:
		return nil
	case hasFunctionCall(m):
		return field.Invalid("must be followed by a message of the role function, with the result").In("function_call")
	}
	first, ids := -1, make([]string, 0, maxNamedIDs+1)
	for k, call := range m.Calls {
		id := call.ID.Text()
		if _, ok := pendingCalls[id]; !ok || len(ids) > maxNamedIDs {
			continue
		}
		if ids = append(ids, fmt.Sprintf("%.64s", id)); first < 0 {
			first = k
		}
	}
	if len(ids) > maxNamedIDs {
		ids[maxNamedIDs] = "…"
	}
	return field.Invalid("must be followed by a tool message for each call; there is none with the tool_call_id %s",
		strings.Join(ids, ", ")).In("id").At(first).In("tool_calls")
}
