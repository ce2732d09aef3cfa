package openai

import (
	"maps"
	"slices"

	"github.com/caddy-codex/caddy-codex/internal/jsontext"
)

// readCall reads a call of any kind. The model has made it of a function: a
// custom tool is one with a single text, see [toolForm].
func (i *inputItem) readCall(fields *itemFields) *fault {
	if f := expectFilled(fields.callID); f != nil {
		return f.in("call_id")
	}
	call := toolCall{id: fields.callID}
	var f *fault
	switch i.kind {
	case itemCall:
		call.arguments = fields.arguments
		if f := expect(jsontext.KindString, call.arguments); f != nil {
			return f.in("arguments")
		}
	case itemCustom:
		if f := expect(jsontext.KindString, fields.input); f != nil {
			return f.in("input")
		}
		call.arguments = jsontext.AppendString(nil, customArguments(fields.input))
	case itemSearch:
		if f := expect(jsontext.KindObject, fields.arguments); f != nil {
			return f.in("arguments")
		}
		call.name = searchTool
		call.arguments = jsontext.AppendString(nil, []byte(fields.arguments.Compact()))
	}
	if i.kind != itemSearch {
		if call.name, f = readCalledName(fields.name); f != nil {
			return f.in("name")
		}
		if f := optional(jsontext.KindString, fields.namespace); f != nil {
			return f.in("namespace")
		}
		if fields.namespace.Given() {
			call.name = joinName(fields.namespace.Text(), call.name)
		}
	}
	i.call = call.id.Text()
	i.message.role, i.message.calls = roleAssistant, []toolCall{call}
	return nil
}

// readOutput reads the output of a call.
func (i *inputItem) readOutput(fields *itemFields) *fault {
	if f := i.readAnswered(fields); f != nil {
		return f
	}
	if f := readItemContent(&i.message, fields.output); f != nil {
		return f.in("output")
	}
	if i.message.empty() {
		i.message.text = jsontext.Value(`""`)
	}
	return nil
}

func (i *inputItem) readAnswered(fields *itemFields) *fault {
	if f := expectFilled(fields.callID); f != nil {
		return f.in("call_id")
	}
	i.answers = fields.callID.Text()
	i.message.role, i.message.callID = roleTool, fields.callID
	return nil
}

// readFound reads the output of a search for tools: the tools, which the model
// may call from now on.
func (r *ResponseRequest) readFound(item *inputItem, fields *itemFields) *fault {
	if f := item.readAnswered(fields); f != nil {
		return f
	}
	if f := r.readMoreTools(fields.tools); f != nil {
		return f.in("tools")
	}
	item.message.text = jsontext.AppendString(nil, []byte(fields.tools.Compact()))
	return nil
}

// checkOutputs checks that each call has one output behind it, and each output
// its call. Codex would invent an output for a call without one and drop an
// output without a call, both without a word.
func checkOutputs(before, input []inputItem) *fault {
	open := map[string]bool{} // the calls that wait
	for i := range before {
		if f := checkOutput(&before[i], open); f != nil {
			return f.in("previous_response_id")
		}
	}
	for i := range input {
		if f := checkOutput(&input[i], open); f != nil {
			return f.at(i).in("input")
		}
	}
	if len(open) > 0 {
		return unansweredItem(input, open)
	}
	return nil
}

func checkOutput(item *inputItem, open map[string]bool) *fault {
	switch {
	case item.call != "":
		if open[item.call] {
			return wrongValue("the call %.64q waits for its output already", item.call).in("call_id")
		}
		open[item.call] = true
	case item.answers != "":
		if !open[item.answers] {
			return wrongValue("there is no call %.64q before that waits for an output", item.answers).in("call_id")
		}
		delete(open, item.answers)
	}
	return nil
}

// unansweredItem is the fault of the calls in open, which have no output.
func unansweredItem(input []inputItem, open map[string]bool) *fault {
	for i := range input {
		if open[input[i].call] {
			return wrongValue("there is no output for the call %.64q", input[i].call).in("call_id").at(i).in("input")
		}
	}
	first := slices.Min(slices.Collect(maps.Keys(open)))
	return wrongValue("there is no output for the call %.64q of the previous response", first).in("input")
}
