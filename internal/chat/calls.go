package chat

import (
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

func readCall(v jsontext.Value) (call prompt.Call, _ *field.Error) {
	var kind, function, custom jsontext.Value
	if f := field.Object(v, jsontext.Into("id", &call.ID), jsontext.Into("type", &kind), jsontext.Into("function", &function), jsontext.Into("custom", &custom)); f != nil {
		return call, f
	}
	if f := field.NonEmpty(call.ID); f != nil {
		return call, f.In("id")
	}
	switch {
	case kind.Is("custom"):
		f := readCalledCustom(&call, custom)
		return call, f.In("custom")
	case kind.Given() && !kind.Is("function"):
		return call, field.Unsupported("must be 'function' or 'custom'").In("type")
	}
	f := readCalledFunction(&call, function)
	return call, f.In("function")
}

// readCalledCustom reads the custom of a call: the name of a custom tool and its input.
func readCalledCustom(c *prompt.Call, v jsontext.Value) *field.Error {
	var called, input jsontext.Value
	if f := field.Object(v, jsontext.Into("name", &called), jsontext.Into("input", &input)); f != nil {
		return f
	}
	var f *field.Error
	if c.Name, f = prompt.ReadCalledName(called); f != nil {
		return f.In("name")
	}
	if f := field.Expect(jsontext.KindString, input); f != nil {
		return f.In("input")
	}
	c.Arguments = prompt.CustomArguments(input)
	return nil
}

func readCalledFunction(c *prompt.Call, v jsontext.Value) *field.Error {
	var called jsontext.Value
	if f := field.Object(v, jsontext.Into("name", &called), jsontext.Into("arguments", &c.Arguments)); f != nil {
		return f
	}
	var f *field.Error
	if c.Name, f = prompt.ReadCalledName(called); f != nil {
		return f.In("name")
	}
	return field.Expect(jsontext.KindString, c.Arguments).In("arguments")
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
