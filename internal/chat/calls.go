package chat

import (
	"cmp"

	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/jsontext"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
)

func readCalls(m *prompt.Message, v jsontext.Value) *field.Error {
	return field.Elements(v, prompt.MaxItems, prompt.AllItems, func(_ int, v jsontext.Value) *field.Error {
		call, f := readCall(v)
		m.Calls = append(m.Calls, call)
		return f
	})
}

func readCall(v jsontext.Value) (call prompt.Call, f *field.Error) {
	var kind, function, custom jsontext.Value
	f = field.Object(v, jsontext.Into("id", &call.ID), jsontext.Into("type", &kind), jsontext.Into("function", &function), jsontext.Into("custom", &custom))
	if f == nil {
		f = field.NonEmpty(call.ID).In("id")
	}
	switch {
	case f != nil:
	case kind.Is("custom"):
		f = readCalled(&call, custom, "input").In("custom")
		call.Arguments = prompt.CustomArguments(call.Arguments)
	case kind.Given() && !kind.Is("function"):
		f = field.Unsupported("must be 'function' or 'custom'").In("type")
	default:
		f = readCalled(&call, function, "arguments").In("function")
	}
	return call, f
}

// readCalled reads the function or the custom tool of a call: its name, and the member with
// the arguments or the input.
func readCalled(c *prompt.Call, v jsontext.Value, member string) *field.Error {
	var name jsontext.Value
	if f := field.Object(v, jsontext.Into("name", &name), jsontext.Into(member, &c.Arguments)); f != nil {
		return f
	}
	return cmp.Or(prompt.ReadCalledName(&c.Name, name).In("name"), field.Expect(jsontext.KindString, c.Arguments).In(member))
}

// wrapTexts makes the arguments of those calls of custom tools that came back as calls
// of functions, with the text as their arguments, what the model had written.
func (r *Request) wrapTexts() {
	if len(r.forms) == 0 {
		return
	}
	for i := range r.Messages {
		for k := range r.Messages[i].Calls {
			if call := &r.Messages[i].Calls[k]; r.forms[call.Name] != 0 {
				call.WrapCustomInput()
			}
		}
	}
}
