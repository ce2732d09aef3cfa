package responses

import (
	"cmp"
	"maps"
	"slices"

	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// readCall reads a call of any kind. For the model, each call is a call of a function, see [originalTool].
func (i *inputItem) readCall(_ *Request, fields itemFields) *field.Error {
	f := field.NonEmpty(fields.callID).In("call_id")
	if f != nil {
		return f
	}
	call := prompt.Call{ID: fields.callID}
	switch i.kind {
	case typeFunctionCall:
		f = cmp.Or(field.Expect(wirejson.KindString, fields.arguments).In("arguments"), readFunctionName(&call.Name, fields))
		call.Arguments = fields.arguments
	case typeCustomCall:
		f = cmp.Or(field.Expect(wirejson.KindString, fields.input).In("input"), readFunctionName(&call.Name, fields))
		call.Arguments = prompt.CustomArguments(fields.input)
	case typeToolSearch:
		f = field.Expect(wirejson.KindObject, fields.arguments).In("arguments")
		call.Name, call.Arguments = toolSearchTool, quoted(fields.arguments)
	default:
		f = i.readClientCall(&call, fields)
	}
	i.callID, i.message.Role, i.message.Calls = fields.callID.Text(), prompt.RoleAssistant, []prompt.Call{call}
	return f
}

func readFunctionName(name *string, fields itemFields) *field.Error {
	var namespace string
	f := cmp.Or(prompt.ReadCalledName(name, fields.name).In("name"), field.Text(&namespace, fields.namespace).In("namespace"))
	if f == nil && namespace != "" {
		f = prompt.ReadCalledName(&namespace, fields.namespace)
	}
	*name = functionName(namespace, *name)
	return f
}

func quoted(v wirejson.Value) wirejson.Value { return wirejson.AppendString(nil, []byte(v.Compact())) }

func (i *inputItem) readOutput(_ *Request, fields itemFields) *field.Error {
	f := cmp.Or(i.readAnsweredCallID(fields), i.message.ReadContent(fields.output, readItemPart).In("output"))
	i.message.Fill()
	return f
}

func (i *inputItem) readAnsweredCallID(fields itemFields) *field.Error {
	i.message.Role, i.message.CallID = prompt.RoleTool, fields.callID
	return cmp.Or(field.NonEmpty(fields.callID), field.String(&i.answeredCallID, fields.callID)).In("call_id")
}

// readToolSearchOutput adds the tools that a search has found to r.inputTools, for the model to call.
func (i *inputItem) readToolSearchOutput(r *Request, fields itemFields) *field.Error {
	f := cmp.Or(i.readAnsweredCallID(fields), r.readInputTools(fields.tools).In("tools"))
	if f == nil {
		i.message.Text = quoted(fields.tools)
	}
	return f
}

// checkOutputs checks that one output follows each call, and that each output follows its call. Otherwise
// Codex would silently invent or drop outputs. earlierItems are the items before the input. The call of an
// output before a summary may be missing, since the model gets neither of them.
func (r *Request) checkOutputs(earlierItems []inputItem) *field.Error {
	pendingCalls := map[string]bool{} // the ids of the calls for which no output was read
	summarised := lastSummary(earlierItems)
	if last := lastSummary(r.input); last >= 0 {
		summarised = len(earlierItems) + last
	}
	for i := range earlierItems {
		if f := checkOutput(&earlierItems[i], pendingCalls, i < summarised); f != nil {
			return f.In(r.earlierParam())
		}
	}
	for i := range r.input {
		if f := checkOutput(&r.input[i], pendingCalls, len(earlierItems)+i < summarised); f != nil {
			return f.At(i).In("input")
		}
	}
	if len(pendingCalls) == 0 {
		return nil
	}
	if r.Shortening.Summary { // it leaves these calls out; their outputs may follow it
		for _, items := range [][]inputItem{earlierItems, r.input} {
			for i := range items {
				if pendingCalls[items[i].callID] {
					r.openCalls = append(r.openCalls, items[i])
				}
			}
		}
		return nil
	}
	if i := slices.IndexFunc(r.input, func(i inputItem) bool { return pendingCalls[i.callID] }); i >= 0 {
		return field.Invalid("there is no output for the call %.64q", r.input[i].callID).In("call_id").At(i).In("input")
	}
	first := slices.Min(slices.Collect(maps.Keys(pendingCalls)))
	return field.Invalid("there is no output for the call %.64q in the items before the input", first).In("input")
}

// lastSummary returns the index of the newest summary that this server has sealed, or -1.
func lastSummary(items []inputItem) int {
	for i := len(items) - 1; i >= 0; i-- {
		if items[i].message.Role == prompt.RoleSealed {
			return i
		}
	}
	return -1
}

func checkOutput(item *inputItem, pendingCalls map[string]bool, summarised bool) *field.Error {
	switch {
	case item.callID != "":
		if pendingCalls[item.callID] {
			return field.Invalid("the call %.64q waits for its output already", item.callID).In("call_id")
		}
		pendingCalls[item.callID] = true
	case item.answeredCallID != "":
		if !pendingCalls[item.answeredCallID] && !summarised {
			return field.Invalid("there is no call %.64q before that waits for an output", item.answeredCallID).In("call_id")
		}
		delete(pendingCalls, item.answeredCallID)
	}
	return nil
}
