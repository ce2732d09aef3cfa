package chat

import (
	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/jsontext"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
)

func readCalls(m *prompt.Message, v jsontext.Value) *field.Error {
	if !v.Given() {
		return nil
	}
	if f := field.Expect(jsontext.KindArray, v); f != nil {
		return f
	}
	for i, v := range v.Elements() {
		if i == prompt.MaxItems {
			return prompt.TooManyItems()
		}
		call, f := readCall(v)
		if f != nil {
			return f.At(i)
		}
		m.Calls = append(m.Calls, call)
	}
	return nil
}

func readCall(v jsontext.Value) (call prompt.Call, _ *field.Error) {
	if f := field.Expect(jsontext.KindObject, v); f != nil {
		return call, f
	}
	var kind, function jsontext.Value
	v.Pick(jsontext.Into("id", &call.ID), jsontext.Into("type", &kind), jsontext.Into("function", &function))
	if f := field.NonEmpty(call.ID); f != nil {
		return call, f.In("id")
	}
	if kind.Given() && !kind.Is("function") {
		return call, field.Unsupported("must be 'function'").In("type")
	}
	f := readCalledFunction(&call, function)
	return call, f.In("function")
}

func readCalledFunction(c *prompt.Call, v jsontext.Value) *field.Error {
	if f := field.Expect(jsontext.KindObject, v); f != nil {
		return f
	}
	var called jsontext.Value
	v.Pick(jsontext.Into("name", &called), jsontext.Into("arguments", &c.Arguments))
	var f *field.Error
	if c.Name, f = prompt.ReadCalledName(called); f != nil {
		return f.In("name")
	}
	return field.Expect(jsontext.KindString, c.Arguments).In("arguments")
}
