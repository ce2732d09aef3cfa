package openai

import "github.com/caddy-codex/caddy-codex/internal/jsontext"

func readCalls(m *message, v jsontext.Value) *fault {
	if !v.Given() {
		return nil
	}
	if f := expect(jsontext.KindArray, v); f != nil {
		return f
	}
	for i, v := range v.Elements() {
		if i == maxItems {
			return tooManyItems()
		}
		call, f := readCall(v)
		if f != nil {
			return f.at(i)
		}
		m.calls = append(m.calls, call)
	}
	return nil
}

func readCall(v jsontext.Value) (call toolCall, _ *fault) {
	if f := expect(jsontext.KindObject, v); f != nil {
		return call, f
	}
	var kind, function jsontext.Value
	v.Pick(jsontext.Into("id", &call.id), jsontext.Into("type", &kind), jsontext.Into("function", &function))
	if f := expectFilled(call.id); f != nil {
		return call, f.in("id")
	}
	if kind.Given() && !kind.Is("function") {
		return call, unsupported("must be 'function'").in("type")
	}
	f := readCalledFunction(&call, function)
	return call, f.in("function")
}

func readCalledFunction(c *toolCall, v jsontext.Value) *fault {
	if f := expect(jsontext.KindObject, v); f != nil {
		return f
	}
	var called jsontext.Value
	v.Pick(jsontext.Into("name", &called), jsontext.Into("arguments", &c.arguments))
	var f *fault
	if c.name, f = readCalledName(called); f != nil {
		return f.in("name")
	}
	return expect(jsontext.KindString, c.arguments).in("arguments")
}
