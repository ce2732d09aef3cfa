package openai

// toolCall is a call that an assistant made (ChatCompletionMessageToolCall).
type toolCall struct {
	id        value
	name      string
	arguments value
	function  bool // it is a function_call, and its id is ours
}

func (m *message) readCalls(v value) *fault {
	if !v.given() {
		return nil
	}
	if f := expect(kindArray, v); f != nil {
		return f
	}
	for i, v := range v.elements() {
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

func readCall(v value) (call toolCall, _ *fault) {
	if f := expect(kindObject, v); f != nil {
		return call, f
	}
	var kind, function value
	v.pick(member{"id", &call.id}, member{"type", &kind}, member{"function", &function})
	if f := expectFilled(call.id); f != nil {
		return call, f.in("id")
	}
	if kind.given() && !kind.is("function") {
		return call, unsupported("must be 'function'").in("type")
	}
	f := call.readFunction(function)
	return call, f.in("function")
}

func (c *toolCall) readFunction(v value) *fault {
	if f := expect(kindObject, v); f != nil {
		return f
	}
	var called value
	v.pick(member{"name", &called}, member{"arguments", &c.arguments})
	var f *fault
	if c.name, f = readCalledName(called); f != nil {
		return f.in("name")
	}
	return expect(kindString, c.arguments).in("arguments")
}
