package responses

import (
	"maps"
	"slices"

	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/jsontext"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
)

// readCall reads a call of any kind. For the model each is a call of a function, see
// [toolForm].
func (i *inputItem) readCall(_ *Request, fields itemFields) *field.Error {
	if f := field.NonEmpty(fields.callID); f != nil {
		return f.In("call_id")
	}
	call := prompt.Call{ID: fields.callID}
	var f *field.Error
	switch i.kind {
	case itemCall:
		call.Arguments = fields.arguments
		if f := field.Expect(jsontext.KindString, call.Arguments); f != nil {
			return f.In("arguments")
		}
	case itemCustom:
		if f := field.Expect(jsontext.KindString, fields.input); f != nil {
			return f.In("input")
		}
		call.Arguments = prompt.CustomArguments(fields.input)
	case itemSearch:
		if f := field.Expect(jsontext.KindObject, fields.arguments); f != nil {
			return f.In("arguments")
		}
		call.Name = searchTool
		call.Arguments = jsontext.AppendString(nil, []byte(fields.arguments.Compact()))
	default:
		var arguments []byte
		if call.Name, arguments, f = i.readClientCall(fields); f != nil {
			return f
		}
		call.Arguments = jsontext.AppendString(nil, arguments)
	}
	if i.kind == itemCall || i.kind == itemCustom {
		if call.Name, f = prompt.ReadCalledName(fields.name); f != nil {
			return f.In("name")
		}
		if f := field.Optional(jsontext.KindString, fields.namespace); f != nil {
			return f.In("namespace")
		}
		if fields.namespace.Given() {
			call.Name = joinName(fields.namespace.Text(), call.Name)
		}
	}
	i.call = call.ID.Text()
	i.message.Role, i.message.Calls = prompt.RoleAssistant, []prompt.Call{call}
	return nil
}

// readOutput reads the output of a call.
func (i *inputItem) readOutput(_ *Request, fields itemFields) *field.Error {
	if f := i.readAnswered(fields); f != nil {
		return f
	}
	if f := readItemContent(&i.message, fields.output); f != nil {
		return f.In("output")
	}
	if i.message.Empty() {
		i.message.Text = jsontext.Value(`""`)
	}
	return nil
}

func (i *inputItem) readAnswered(fields itemFields) *field.Error {
	if f := field.NonEmpty(fields.callID); f != nil {
		return f.In("call_id")
	}
	i.answers = fields.callID.Text()
	i.message.Role, i.message.CallID = prompt.RoleTool, fields.callID
	return nil
}

// readFound reads the output of a search for tools: tools that the model may call from
// now on.
func (i *inputItem) readFound(r *Request, fields itemFields) *field.Error {
	if f := i.readAnswered(fields); f != nil {
		return f
	}
	if f := r.readMoreTools(fields.tools); f != nil {
		return f.In("tools")
	}
	i.message.Text = jsontext.AppendString(nil, []byte(fields.tools.Compact()))
	return nil
}

// checkOutputs checks that each call has one output after it, and each output its call.
// Codex would silently invent an output for a call without one, and drop an output
// without a call.
func checkOutputs(before, input []inputItem) *field.Error {
	open := map[string]bool{} // the calls that wait
	for i := range before {
		if f := checkOutput(&before[i], open); f != nil {
			return f.In("previous_response_id")
		}
	}
	for i := range input {
		if f := checkOutput(&input[i], open); f != nil {
			return f.At(i).In("input")
		}
	}
	for i := range input {
		if open[input[i].call] {
			return field.Invalid("there is no output for the call %.64q", input[i].call).In("call_id").At(i).In("input")
		}
	}
	if len(open) > 0 {
		first := slices.Min(slices.Collect(maps.Keys(open)))
		return field.Invalid("there is no output for the call %.64q of the previous response", first).In("input")
	}
	return nil
}

func checkOutput(item *inputItem, open map[string]bool) *field.Error {
	switch {
	case item.call != "":
		if open[item.call] {
			return field.Invalid("the call %.64q waits for its output already", item.call).In("call_id")
		}
		open[item.call] = true
	case item.answers != "":
		if !open[item.answers] {
			return field.Invalid("there is no call %.64q before that waits for an output", item.answers).In("call_id")
		}
		delete(open, item.answers)
	}
	return nil
}
