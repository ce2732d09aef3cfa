package openai

import (
	"strconv"

	"github.com/caddy-codex/caddy-codex/internal/jsontext"
)

// readFunctions reads the functions that tools have replaced
// (ChatCompletionFunctions). Older clients know nothing else.
func (r *ChatRequest) readFunctions(v jsontext.Value) (f *fault) {
	r.functions, f = readToolList(v, "functions", (*toolList).readFunction)
	return f
}

// readFunctionCall reads what tool_choice has replaced: none, auto, or the name
// of a function (ChatCompletionFunctionCallOption).
func (r *ChatRequest) readFunctionCall(v jsontext.Value) *fault {
	r.functionCall = toolChoice{}
	switch v.Kind() {
	case jsontext.KindNull:
		return nil
	case jsontext.KindString:
		switch v.Text() {
		case "auto":
		case "none":
			r.functionCall.none = true
		default:
			return wrongValue("must be none, auto or an object")
		}
		return nil
	case jsontext.KindObject:
		name, f := readChosenName(v)
		r.functionCall.required, r.functionCall.only = true, []string{name}
		return f
	}
	return wrongType("a string or an object", v)
}

// useFunctions puts the functions in the place of the tools. A request has the
// one or the other: its answer has either tool_calls or a function_call.
func (r *ChatRequest) useFunctions() *fault {
	switch {
	case len(r.functions) > 0 && len(r.tools) > 0:
		return wrongValue("cannot stand beside 'tools'; use 'tools' alone").in("functions")
	case len(r.functions) > 0 && !r.choice.isAuto():
		return wrongValue("belongs to 'tools'; beside 'functions' use 'function_call'").in("tool_choice")
	case len(r.tools) > 0:
		return wrongValue("belongs to 'functions'; beside 'tools' use 'tool_choice'").in("function_call")
	}
	if name := r.functionCall.unknown(r.functions); name != "" {
		return wrongValue("there is no function %.128q in 'functions'", name).in("function_call")
	}
	if len(r.functions) == 0 {
		return r.choice.check(nil).in("tool_choice")
	}
	r.tools, r.choice = r.functions, r.functionCall
	r.usesFunctions, r.serialTools = true, true
	return nil
}

// readFunctionMessageCall reads the function_call of an assistant's message. It
// has no id; Codex gets one that only the answer right behind it shares.
func readFunctionMessageCall(m *message, v jsontext.Value, index int) *fault {
	if !v.Given() {
		return nil
	}
	if len(m.calls) > 0 {
		return wrongValue("cannot stand beside 'tool_calls'")
	}
	call := toolCall{id: jsontext.Value(strconv.AppendQuote(nil, "function_call_"+strconv.Itoa(index))), function: true}
	if f := readCalledFunction(&call, v); f != nil {
		return f
	}
	m.calls = []toolCall{call}
	return nil
}

// callsFunction reports whether the message's call is a function_call.
func callsFunction(m *message) bool { return len(m.calls) == 1 && m.calls[0].function }

// answerFunction makes a message of the role function, which has a name where a
// tool's result has the id of a call, the result of the call in the message before.
func answerFunction(m *message, before *message) *fault {
	name, f := readCalledName(m.callID)
	if f != nil || before == nil || !callsFunction(before) || name != before.calls[0].name {
		return wrongValue("there is no function_call of %.64q in the message right before", m.callID.Text())
	}
	m.role, m.callID = roleTool, before.calls[0].id
	return nil
}
