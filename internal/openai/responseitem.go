package openai

import (
	"encoding/json"

	"github.com/caddy-codex/caddy-codex/internal/jsontext"
)

// inputItem is one item of a response's input (InputItem).
type inputItem struct {
	raw     jsontext.Value
	kind    string // its type
	id      string // its own id, if it has one
	call    string // the id of the call that it is, if it is one
	answers string // the id of the call that it answers, if it does
	// message is what the model is given, unless the item is silent.
	message message
	silent  bool
}

// The types of items that are looked at by name.
const (
	itemMessageType     = "message"
	itemReference       = "item_reference"
	itemReasoningType   = "reasoning"
	itemCall            = "function_call"
	itemCallOutput      = "function_call_output"
	itemCustom          = "custom_tool_call"
	itemCustomOutput    = "custom_tool_call_output"
	itemSearch          = "tool_search_call"
	itemSearchOutput    = "tool_search_output"
	itemAdditionalTools = "additional_tools"
)

// verbatimItems are the types of items that Codex takes as they are, though
// nothing here makes such ones.
var verbatimItems = map[string]bool{
	"web_search_call":       true,
	"image_generation_call": true,
	"compaction":            true,
}

func (r *ResponseRequest) readInput(v jsontext.Value) *fault {
	r.input, r.more, r.hasInput, r.elements = nil, nil, v.Given(), 0
	switch v.Kind() {
	case jsontext.KindAbsent, jsontext.KindNull:
		return nil
	case jsontext.KindString:
		r.input = []inputItem{{
			raw: v, kind: itemMessageType,
			message: message{role: roleUser, text: v, size: len(v)},
		}}
		return nil
	case jsontext.KindArray:
		for i, v := range v.Elements() {
			item, f := r.readItem(v)
			if f != nil {
				return f.at(i)
			}
			if f := r.count(&item.message); f != nil {
				return f
			}
			r.input = append(r.input, item)
		}
		return nil
	}
	return wrongType("a string or an array of items", v)
}

// itemFields are the members of an item as they stand in the body.
type itemFields struct {
	kind, id, role, content                    jsontext.Value
	callID, name, namespace, arguments, output jsontext.Value
	input, tools, encrypted, phase             jsontext.Value
}

func readItemFields(v jsontext.Value) (fields itemFields) {
	v.Pick(
		jsontext.Into("type", &fields.kind),
		jsontext.Into("id", &fields.id),
		jsontext.Into("role", &fields.role),
		jsontext.Into("content", &fields.content),
		jsontext.Into("call_id", &fields.callID),
		jsontext.Into("name", &fields.name),
		jsontext.Into("namespace", &fields.namespace),
		jsontext.Into("arguments", &fields.arguments),
		jsontext.Into("output", &fields.output),
		jsontext.Into("input", &fields.input),
		jsontext.Into("tools", &fields.tools),
		jsontext.Into("encrypted_content", &fields.encrypted),
		jsontext.Into("phase", &fields.phase),
	)
	return fields
}

// typeOf is the type of an item. A message and a reference may leave it out.
func (fields *itemFields) typeOf() (string, *fault) {
	switch {
	case fields.kind.Given():
		return fields.kind.Text(), expect(jsontext.KindString, fields.kind).in("type")
	case fields.role.Given():
		return itemMessageType, nil
	case fields.id.Given():
		return itemReference, nil
	}
	return "", missing().in("type")
}

func (r *ResponseRequest) readItem(v jsontext.Value) (item inputItem, f *fault) {
	if f := expect(jsontext.KindObject, v); f != nil {
		return item, f
	}
	fields := readItemFields(v)
	if fields.kind.Given() {
		if f := expect(jsontext.KindString, fields.kind); f != nil {
			return item, f.in("type")
		}
	}
	if f := optional(jsontext.KindString, fields.id); f != nil {
		return item, f.in("id")
	}
	item.raw = v
	if fields.id.Given() {
		item.id = fields.id.Text()
	}
	item.message.size = len(v)
	if item.kind, f = fields.typeOf(); f != nil {
		return item, f
	}
	return item, r.readItemOf(&item, &fields)
}

// readItemOf reads what an item of its type has.
func (r *ResponseRequest) readItemOf(item *inputItem, fields *itemFields) *fault {
	switch item.kind {
	case itemMessageType:
		return item.readMessage(fields)
	case itemReference:
		item.silent = true
		return expectFilled(fields.id).in("id")
	case itemReasoningType:
		return item.readReasoning(fields)
	case itemCall, itemCustom, itemSearch:
		return item.readCall(fields)
	case itemCallOutput, itemCustomOutput:
		return item.readOutput(fields)
	case itemSearchOutput:
		return r.readFound(item, fields)
	case itemAdditionalTools:
		item.silent = true
		return r.readMoreTools(fields.tools).in("tools")
	}
	if verbatimItems[item.kind] {
		item.passOn()
		return nil
	}
	return unsupported("an item of the type '%.64s' cannot be passed on to Codex; leave it out", item.kind).in("type")
}

// passOn gives the item to Codex as it is.
func (i *inputItem) passOn() {
	i.message.role, i.message.item = roleItem, jsontext.Value(i.raw.Compact())
}

func (i *inputItem) readMessage(fields *itemFields) *fault {
	if f := expect(jsontext.KindString, fields.role); f != nil {
		return f.in("role")
	}
	i.message.role = readRole(fields.role)
	switch i.message.role {
	case roleUser, roleAssistant, roleSystem, roleDeveloper:
	default:
		return wrongValue("must be one of user, assistant, system, developer").in("role")
	}
	if f := readItemContent(&i.message, fields.content); f != nil {
		return f.in("content")
	}
	if i.message.role == roleAssistant {
		if f := readOneOf(&i.message.phase, phases, fields.phase); f != nil {
			return f.in("phase")
		}
	}
	if i.message.empty() || i.message.role == roleAssistant && i.message.text != nil && len(i.message.text.RawText()) == 0 {
		i.silent = true
	}
	return nil
}

// readReasoning passes on reasoning that the provider can read again. Without
// its encrypted content the model would get nothing of it.
func (i *inputItem) readReasoning(fields *itemFields) *fault {
	if f := optional(jsontext.KindString, fields.encrypted); f != nil {
		return f.in("encrypted_content")
	}
	if !fields.encrypted.Given() || len(fields.encrypted.RawText()) == 0 {
		i.silent = true
		return nil
	}
	var summary jsontext.Value
	for name, v := range i.raw.Members() {
		if string(name) == "summary" {
			summary = v
		}
	}
	if f := expect(jsontext.KindArray, summary); f != nil {
		return f.in("summary")
	}
	for k, v := range summary.Elements() {
		if f := expect(jsontext.KindObject, v); f != nil {
			return f.at(k).in("summary")
		}
	}
	i.passOn()
	if source, ok := sourceOf(i.id); ok {
		i.message.item = jsontext.Value(i.resource(source))
	}
	return nil
}

// resolve puts the item that a reference names in its place.
func (i *inputItem) resolve(r *ResponseRequest, at int, found map[string]json.RawMessage) *Error {
	if i.kind != itemReference {
		return nil
	}
	raw, ok := found[i.id]
	if !ok {
		return itemNotFound(i.id, at)
	}
	item, f := r.readItem(jsontext.Value(raw))
	*i = item
	if f == nil {
		return nil
	}
	return f.in("id").at(at).in("input").toError()
}

func itemNotFound(id string, at int) *Error {
	return notFound("there is no item %.64q here; items are kept with their response, when 'store' is not false", id).
		in("id").at(at).in("input").toError()
}
