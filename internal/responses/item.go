package responses

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/jsontext"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/responseid"
)

// inputItem is an item of the input (InputItem).
type inputItem struct {
	raw     jsontext.Value
	kind    string // its type
	id      string // its own id, if it has one
	call    string // the id of the call that it is, if it is one
	answers string // the id of the call that it answers, if it does
	// message is what the model gets, unless the item is silent.
	message prompt.Message
	silent  bool
}

// The types of items that are treated differently.
const (
	itemMessageType     = "message"
	itemReference       = "item_reference"
	itemReasoningType   = "reasoning"
	itemCall            = "function_call"
	itemCustom          = "custom_tool_call"
	itemSearch          = "tool_search_call"
	itemSearchOutput    = "tool_search_output"
	itemAdditionalTools = "additional_tools"
)

// itemKind is what the items of a type have in common.
type itemKind struct {
	prefix string                                              // of their ids
	read   func(*inputItem, *Request, itemFields) *field.Error // reads their members
}

var itemKinds = map[string]itemKind{
	itemMessageType:        {"msg", (*inputItem).readMessage},
	itemReference:          {"item", (*inputItem).readReference},
	itemReasoningType:      {"rs", (*inputItem).readReasoning},
	itemCall:               {"fc", (*inputItem).readCall},
	itemCall + "_output":   {"fco", (*inputItem).readOutput},
	itemCustom:             {"ctc", (*inputItem).readCall},
	itemCustom + "_output": {"ctco", (*inputItem).readOutput},
	itemSearch:             {"tsc", (*inputItem).readCall},
	itemSearchOutput:       {"tso", (*inputItem).readFound},
	itemAdditionalTools:    {"at", (*inputItem).readAdditionalTools},

	itemShell:      {"sh", (*inputItem).readCall},
	itemLocalShell: {"lsh", (*inputItem).readCall},
	itemPatch:      {"apc", (*inputItem).readCall},
	itemComputer:   {"cu", (*inputItem).readCall},

	itemShell + "_output":      {"sho", (*inputItem).readClientOutput},
	itemLocalShell + "_output": {"lsho", (*inputItem).readClientOutput},
	itemPatch + "_output":      {"apco", (*inputItem).readClientOutput},
	itemComputer + "_output":   {"cuo", (*inputItem).readClientOutput},

	itemWebSearch:           {"ws", (*inputItem).readVerbatim},
	"image_generation_call": {"item", (*inputItem).readVerbatim},
	"compaction":            {"item", (*inputItem).readVerbatim},
}

func (r *Request) readInput(v jsontext.Value) *field.Error {
	r.input, r.more, r.hasInput, r.Elements = nil, nil, v.Given(), 0
	switch v.Kind() {
	case jsontext.KindAbsent, jsontext.KindNull:
		return nil
	case jsontext.KindString:
		r.input = []inputItem{{
			raw: v, kind: itemMessageType,
			message: prompt.Message{Role: prompt.RoleUser, Text: v, Size: len(v)},
		}}
		return nil
	case jsontext.KindArray:
		for i, v := range v.Elements() {
			r.input = append(r.input, inputItem{})
			if f := r.input[i].read(r, v); f != nil {
				return f.At(i)
			}
			if f := r.Count(&r.input[i].message); f != nil {
				return f
			}
		}
		return nil
	}
	return field.WrongType("a string or an array of items", v)
}

type itemFields struct {
	kind, id, role, content                    jsontext.Value
	callID, name, namespace, arguments, output jsontext.Value
	input, tools, encrypted, summary, phase    jsontext.Value
	action, actions, operation, status         jsontext.Value
}

func (f *itemFields) read(v jsontext.Value) *field.Error {
	return field.Object(v, jsontext.Into("type", &f.kind), jsontext.Into("id", &f.id),
		jsontext.Into("role", &f.role), jsontext.Into("content", &f.content), jsontext.Into("call_id", &f.callID),
		jsontext.Into("name", &f.name), jsontext.Into("namespace", &f.namespace),
		jsontext.Into("arguments", &f.arguments), jsontext.Into("output", &f.output),
		jsontext.Into("input", &f.input), jsontext.Into("tools", &f.tools),
		jsontext.Into("encrypted_content", &f.encrypted), jsontext.Into("summary", &f.summary),
		jsontext.Into("phase", &f.phase), jsontext.Into("action", &f.action), jsontext.Into("actions", &f.actions),
		jsontext.Into("operation", &f.operation), jsontext.Into("status", &f.status))
}

// read reads an item into i, which is empty.
func (i *inputItem) read(r *Request, v jsontext.Value) *field.Error {
	var fields itemFields
	if f := fields.read(v); f != nil {
		return f
	}
	if f := cmp.Or(field.Text(&i.kind, fields.kind).In("type"), field.Text(&i.id, fields.id).In("id")); f != nil {
		return f
	}
	i.raw, i.message.Size = v, len(v)
	switch { // the type is optional in a message and in a reference
	case fields.kind.Given():
	case fields.role.Given():
		i.kind = itemMessageType
	case fields.id.Given():
		i.kind = itemReference
	default:
		return field.Missing().In("type")
	}
	kind, known := itemKinds[i.kind]
	if !known {
		return field.Unsupported("an item of the type '%.64s' cannot be passed on to Codex; leave it out", i.kind).In("type")
	}
	return kind.read(i, r, fields)
}

func (i *inputItem) readReference(_ *Request, fields itemFields) *field.Error {
	i.silent = true
	return field.NonEmpty(fields.id).In("id")
}

func (i *inputItem) readAdditionalTools(r *Request, fields itemFields) *field.Error {
	i.silent = true
	return r.readMoreTools(fields.tools).In("tools")
}

// readVerbatim reads an item that Codex gets as it is.
func (i *inputItem) readVerbatim(*Request, itemFields) *field.Error {
	i.passOn()
	return nil
}

// passOn gives Codex the item as it is. One of the provider's gets the id that it has there.
func (i *inputItem) passOn() {
	i.message.Role, i.message.Item = prompt.RoleItem, jsontext.Value(i.raw.Compact())
	if source, ok := responseid.Source(i.id); ok {
		i.message.Item = jsontext.Value(i.resource(source))
	}
}

func (i *inputItem) readMessage(_ *Request, fields itemFields) *field.Error {
	if f := field.Expect(jsontext.KindString, fields.role); f != nil {
		return f.In("role")
	}
	i.message.Role = prompt.ReadRole(fields.role)
	if !slices.Contains([]prompt.Role{prompt.RoleUser, prompt.RoleAssistant, prompt.RoleSystem, prompt.RoleDeveloper}, i.message.Role) {
		return field.Invalid("must be one of user, assistant, system, developer").In("role")
	}
	f := i.message.ReadContent(fields.content, readItemPart).In("content")
	if f == nil && i.message.Role == prompt.RoleAssistant {
		f = field.OneOf(&i.message.Phase, phases, fields.phase).In("phase")
	}
	if i.message.Empty() || i.message.Role == prompt.RoleAssistant && i.message.Text != nil && len(i.message.Text.RawText()) == 0 {
		i.silent = true
	}
	return f
}

// readReasoning passes on reasoning with an encrypted content, which the provider can
// read. Without that the model would get nothing of it.
func (i *inputItem) readReasoning(_ *Request, fields itemFields) *field.Error {
	if f := field.Optional(jsontext.KindString, fields.encrypted); f != nil {
		return f.In("encrypted_content")
	}
	if i.silent = !fields.encrypted.Given() || len(fields.encrypted.RawText()) == 0; i.silent {
		return nil
	}
	i.passOn()
	return cmp.Or(field.Expect(jsontext.KindArray, fields.summary), field.Elements(fields.summary, math.MaxInt, "",
		func(_ int, v jsontext.Value) *field.Error { return field.Expect(jsontext.KindObject, v) })).In("summary")
}

// resolve replaces a reference by its item.
func (i *inputItem) resolve(r *Request, at int, found map[string]json.RawMessage) *apierror.Error {
	if i.kind != itemReference {
		return nil
	}
	raw, ok := found[i.id]
	if !ok {
		return itemNotFound(i.id, at)
	}
	*i = inputItem{}
	return i.read(r, jsontext.Value(raw)).In("id").At(at).In("input").APIError()
}

func itemNotFound(id string, at int) *apierror.Error {
	return field.NotFound("there is no item %.64q here; items are kept with their response, when 'store' is not false", id).
		In("id").At(at).In("input").APIError()
}

// itemPart has the members of a part besides its type.
type itemPart struct{ text, refusal, image, detail, file jsontext.Value }

func (p *itemPart) members() []jsontext.Member {
	return []jsontext.Member{jsontext.Into("text", &p.text), jsontext.Into("refusal", &p.refusal),
		jsontext.Into("image_url", &p.image), jsontext.Into("detail", &p.detail), jsontext.Into("file_id", &p.file)}
}

// readItemPart reads a part of the content of a message, or of the output of a call.
func readItemPart(m *prompt.Message, v jsontext.Value) (prompt.Part, *field.Error) {
	var fields itemPart
	var t jsontext.Value
	if f := field.Typed(&t, v, fields.members()...); f != nil {
		return prompt.Part{}, f
	}
	switch kind := t.Text(); {
	case kind == "input_text", kind == "output_text" && m.Role == prompt.RoleAssistant:
		return prompt.TextPart("text", fields.text)
	case kind == "refusal" && m.Role == prompt.RoleAssistant:
		return prompt.TextPart("refusal", fields.refusal)
	case kind == "input_image" && (m.Role == prompt.RoleUser || m.Role == prompt.RoleTool):
		return fields.inputImage()
	default:
		return prompt.Part{}, unknownItemPart(m, kind).In("type")
	}
}

// inputImage returns an input_image, or a computer_screenshot.
func (p *itemPart) inputImage() (prompt.Part, *field.Error) {
	if p.file.Given() {
		return prompt.Part{}, field.Unsupported("is not supported: there are no files here; send the image as a data URL in 'image_url'").In("file_id")
	}
	return prompt.ImagePart(p.image, p.detail, "image_url")
}

func unknownItemPart(m *prompt.Message, name string) *field.Error {
	switch name {
	case "input_file":
		return field.Unsupported("'input_file' is not supported: send its text, or an image of it")
	case "input_audio":
		return field.Unsupported("'input_audio' is not supported: audio cannot be sent to Codex")
	case "text", "image_url":
		return field.Invalid("'%s' belongs to POST /v1/chat/completions; here it is input_text or input_image", name)
	}
	switch m.Role {
	case prompt.RoleUser, prompt.RoleTool:
		return field.Invalid("must be input_text or input_image here")
	case prompt.RoleAssistant:
		return field.Invalid("must be output_text or refusal in a message of the role assistant")
	}
	return field.Invalid("must be input_text in a message of the role %s", m.Role)
}
