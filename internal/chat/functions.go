package chat

import (
	"strconv"

	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/jsontext"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
)

// readFunctions reads functions (ChatCompletionFunctions), which tools have replaced.
// Older clients know nothing else.
func (r *Request) readFunctions(v jsontext.Value) *field.Error {
	list, f := readToolList(v, "functions", (*toolList).readFunction)
	r.functions = list.tools
	return f
}

// readFunctionCall reads function_call, which tool_choice has replaced: none, auto, or
// the name of a function (ChatCompletionFunctionCallOption).
func (r *Request) readFunctionCall(v jsontext.Value) *field.Error {
	if v.Kind() == jsontext.KindString && !v.Is("auto") && !v.Is("none") {
		return field.Invalid("must be none, auto or an object")
	}
	return r.functionCall.Read(v, func(c *prompt.ToolChoice, v jsontext.Value) *field.Error {
		return c.Require(readChosenName(v))
	})
}

// useFunctions makes the functions the tools of the request. It has either functions or
// tools, since its answer has either a function_call or tool_calls.
func (r *Request) useFunctions() *field.Error {
	switch {
	case len(r.functions) > 0 && len(r.Tools) > 0:
		return field.Invalid("cannot stand beside 'tools'; use 'tools' alone").In("functions")
	case len(r.functions) > 0 && !r.Choice.IsAuto():
		return field.Invalid("belongs to 'tools'; beside 'functions' use 'function_call'").In("tool_choice")
	case len(r.Tools) > 0:
		return field.Invalid("belongs to 'functions'; beside 'tools' use 'tool_choice'").In("function_call")
	}
	if name := r.functionCall.Unknown(r.functions); name != "" {
		return field.Invalid("there is no function %.128q in 'functions'", name).In("function_call")
	}
	if len(r.functions) == 0 {
		return r.Choice.Check(nil, false).In("tool_choice")
	}
	r.Tools, r.Choice = r.functions, r.functionCall
	r.usesFunctions, r.SerialTools = true, true
	return nil
}

// readFunctionMessageCall reads the function_call of an assistant's message. It has no
// id, so it gets one that its result shares.
func readFunctionMessageCall(m *prompt.Message, v jsontext.Value, index int) *field.Error {
	if !v.Given() {
		return nil
	}
	if len(m.Calls) > 0 {
		return field.Invalid("cannot stand beside 'tool_calls'")
	}
	call := prompt.Call{ID: jsontext.Value(strconv.AppendQuote(nil, "function_call_"+strconv.Itoa(index))), Function: true}
	f := readCalled(&call, v, "arguments")
	m.Calls = []prompt.Call{call}
	return f
}

// callsFunction reports whether the message has a function_call.
func callsFunction(m *prompt.Message) bool { return len(m.Calls) == 1 && m.Calls[0].Function }

// answerFunction turns a message of the role function into the result of the call in
// the message before. It has the name of the function where a tool message has the id
// of the call.
func answerFunction(m *prompt.Message, before []prompt.Message) *field.Error {
	var name string
	f := prompt.ReadCalledName(&name, m.CallID)
	if last := len(before) - 1; f == nil && last >= 0 && callsFunction(&before[last]) && name == before[last].Calls[0].Name {
		m.Role, m.CallID = prompt.RoleTool, before[last].Calls[0].ID
		return nil
	}
	return field.Invalid("there is no function_call of %.64q in the message right before", m.CallID.Text())
}
