package responses

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/responseid"
	"github.com/caddy-codex/caddy-codex/internal/seal"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

type inputItem struct {
	raw             wirejson.Value
	kind            string         // its type
	id              string         // its own id, if it has one
	callID          string         // if the item is a call: the id of the call
	answeredCallID  string         // if the item is an output: the id of its call
	message         prompt.Message // the item in the form for the model
	hiddenFromModel bool           // the model does not get the message
	effort          string         // the reasoning effort that the item sets; empty: none
}

const (
	typeMessage          = "message"
	typeReference        = "item_reference"
	typeReasoning        = "reasoning"
	typeFunctionCall     = "function_call"
	typeCustomCall       = "custom_tool_call"
	typeToolSearch       = "tool_search_call"
	typeToolSearchOutput = "tool_search_output"
	typeAdditionalTools  = "additional_tools"
	typeCompaction       = "compaction"
	typeTrigger          = "compaction_trigger"
)

type itemType struct {
	idPrefix string                                              // the beginning of the ids of such items
	read     func(*inputItem, *Request, itemFields) *field.Error // reads the members of such an item
}

var itemTypes = map[string]itemType{
	typeMessage:                  {"msg", (*inputItem).readMessage},
	typeReference:                {"item", (*inputItem).readReference},
	typeReasoning:                {"rs", (*inputItem).readReasoning},
	typeFunctionCall:             {"fc", (*inputItem).readCall},
	typeFunctionCall + "_output": {"fco", (*inputItem).readOutput},
	typeCustomCall:               {"ctc", (*inputItem).readCall},
	typeCustomCall + "_output":   {"ctco", (*inputItem).readOutput},
	typeToolSearch:               {"tsc", (*inputItem).readCall},
	typeToolSearchOutput:         {"tso", (*inputItem).readToolSearchOutput},
	typeAdditionalTools:          {"at", (*inputItem).readAdditionalTools},

	typeShellCall:             {"sh", (*inputItem).readCall},
	typePatchCall:             {"apc", (*inputItem).readCall},
	typeShellCall + "_output": {"sho", (*inputItem).readClientOutput},
	typePatchCall + "_output": {"apco", (*inputItem).readClientOutput},

	typeWebSearch:          {"ws", (*inputItem).readVerbatim},
	typeCompaction:         {"cmp", (*inputItem).readCompaction},
	typeTrigger:            {"", (*inputItem).readTrigger},
	"configuration_update": {"cu", (*inputItem).readConfigUpdate},
}

// insteadOf says, for the tools and items of OpenAI that are refused here, what does the same.
var insteadOf = map[string]string{
	"local_shell":             "use the tool shell",
	"local_shell_call":        "send it as a shell_call",
	"local_shell_call_output": "send it as a shell_call_output",
	"image_generation":        "POST /v1/images/generations makes pictures",
	"image_generation_call":   "send its picture as an input_image in a message of the user",
}

func (r *Request) readInput(v wirejson.Value) *field.Error {
	r.input, r.inputTools, r.hasInput, r.Elements = nil, nil, v.Given(), 0
	switch v.Kind() {
	case wirejson.KindAbsent, wirejson.KindNull:
		return nil
	case wirejson.KindString:
		r.input = []inputItem{{
			raw: v, kind: typeMessage,
			message: prompt.Message{Role: prompt.RoleUser, Text: v, Size: len(v)},
		}}
		return nil
	case wirejson.KindArray:
		c := wirejson.NewCursor(v)
		c.Enter()
		for i := 0; c.Next(); i++ {
			r.input = append(r.input, inputItem{})
			item := &r.input[i]
			if f := cmp.Or(item.read(r, c).At(i), r.Count(&item.message)); f != nil {
				return f
			}
		}
		return nil
	}
	return field.WrongType("a string or an array of items", v)
}

type itemFields struct {
	kind, id, role, content                    wirejson.Value
	callID, name, namespace, arguments, output wirejson.Value
	input, tools, encrypted, summary, phase    wirejson.Value
	action, operation, status, reasoning       wirejson.Value
}

func (i *inputItem) read(r *Request, c *wirejson.Cursor) *field.Error {
	var in itemFields
	v := c.Pick(wirejson.Into("type", &in.kind), wirejson.Into("id", &in.id),
		wirejson.Into("role", &in.role), wirejson.Into("content", &in.content), wirejson.Into("call_id", &in.callID),
		wirejson.Into("name", &in.name), wirejson.Into("namespace", &in.namespace),
		wirejson.Into("arguments", &in.arguments), wirejson.Into("output", &in.output),
		wirejson.Into("input", &in.input), wirejson.Into("tools", &in.tools),
		wirejson.Into("encrypted_content", &in.encrypted), wirejson.Into("summary", &in.summary),
		wirejson.Into("phase", &in.phase), wirejson.Into("action", &in.action),
		wirejson.Into("operation", &in.operation), wirejson.Into("status", &in.status),
		wirejson.Into("reasoning", &in.reasoning))
	f := field.Expect(wirejson.KindObject, v)
	if f = cmp.Or(f, field.Text(&i.kind, in.kind).In("type"), field.Text(&i.id, in.id).In("id")); f != nil {
		return f
	}
	i.raw, i.message.Size = v, len(v)
	switch { // the type is optional in a message and in a reference
	case in.kind.Given():
	case in.role.Given():
		i.kind = typeMessage
	case in.id.Given():
		i.kind = typeReference
	default:
		return field.Missing().In("type")
	}
	kind, known := itemTypes[i.kind]
	if !known {
		advice := cmp.Or(insteadOf[i.kind], "leave it out")
		return field.Unsupported("an item of the type '%.64s' cannot be passed on to Codex; %s", i.kind, advice).In("type")
	}
	return kind.read(i, r, in)
}

func (i *inputItem) readReference(_ *Request, fields itemFields) *field.Error {
	i.hiddenFromModel = true
	return field.NonEmpty(fields.id).In("id")
}

func (i *inputItem) readAdditionalTools(r *Request, fields itemFields) *field.Error {
	i.hiddenFromModel = true
	return r.readInputTools(fields.tools).In("tools")
}

func (i *inputItem) readConfigUpdate(_ *Request, fields itemFields) *field.Error {
	i.hiddenFromModel = true
	return field.Members(fields.reasoning, i, configUpdateReaders).In("reasoning")
}

var configUpdateReaders = field.Readers[*inputItem]{
	"effort": func(i *inputItem, v wirejson.Value) *field.Error { return field.OneOf(&i.effort, codexrpc.Efforts, v) },
}

// lastEffort returns the reasoning effort that is set by the last of items that sets one; empty: none does.
func lastEffort(items []inputItem) (effort string) {
	for i := range items {
		effort = cmp.Or(items[i].effort, effort)
	}
	return effort
}

// readVerbatim passes the item on to Codex as it is, but with the provider's own id if the id contains one.
func (i *inputItem) readVerbatim(*Request, itemFields) *field.Error {
	i.message.Role, i.message.Item = prompt.RoleItem, wirejson.Value(i.raw.Compact())
	if source, ok := responseid.Source(i.id); ok {
		i.message.Item = wirejson.Value(i.storedJSON(source))
	}
	return nil
}

// readCompaction reads a summary of the conversation. One that this server has not sealed is the provider's.
func (i *inputItem) readCompaction(r *Request, fields itemFields) *field.Error {
	if f := field.NonEmpty(fields.encrypted); f != nil {
		return f.In("encrypted_content")
	}
	if !seal.IsSealed(fields.encrypted.Text()) {
		if _, ours := responseid.OfItem(i.id); ours {
			return field.Invalid("the summary cannot be read: it was changed").In("encrypted_content")
		}
		return i.readVerbatim(r, fields)
	}
	i.message.Role, i.message.Item = prompt.RoleSealed, fields.encrypted
	return nil
}

// readTrigger reads the item that asks for a summary instead of an answer.
func (i *inputItem) readTrigger(r *Request, _ itemFields) *field.Error {
	i.hiddenFromModel = true
	r.Shortening.Summary, r.Shortening.UsersStay = true, true
	return nil
}

func (i *inputItem) readMessage(_ *Request, fields itemFields) *field.Error {
	if f := field.Expect(wirejson.KindString, fields.role); f != nil {
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
		i.hiddenFromModel = true // the message is empty
	}
	return f
}

// readReasoning passes reasoning on if it has encrypted content, which only the provider can read.
// Otherwise the item is left out: the model would get nothing from it.
func (i *inputItem) readReasoning(r *Request, fields itemFields) *field.Error {
	if f := field.Optional(wirejson.KindString, fields.encrypted); f != nil {
		return f.In("encrypted_content")
	}
	if i.hiddenFromModel = !fields.encrypted.Given() || fields.encrypted.Is(""); i.hiddenFromModel {
		return nil
	}
	return cmp.Or(i.readVerbatim(r, fields), field.Expect(wirejson.KindArray, fields.summary), field.Elements(fields.summary, math.MaxInt, "",
		func(_ int, v wirejson.Value) *field.Error { return field.Expect(wirejson.KindObject, v) })).In("summary")
}

// resolve replaces i, if i is a reference, by the item in found to which i refers. index is the place of i
// in the input.
func (i *inputItem) resolve(r *Request, index int, found map[string]json.RawMessage) *apierror.Error {
	if i.kind != typeReference {
		return nil
	}
	raw, ok := found[i.id]
	if !ok {
		return itemNotFound(i.id, index)
	}
	*i = inputItem{}
	return i.read(r, wirejson.NewCursor(wirejson.Value(raw))).In("id").At(index).In("input").APIError()
}

func itemNotFound(id string, index int) *apierror.Error {
	return field.NotFound("there is no item %.64q here; items are kept with their response, when 'store' is not false", id).
		In("id").At(index).In("input").APIError()
}

func readItemPart(m *prompt.Message, v wirejson.Value) (prompt.Part, *field.Error) {
	var t, text, refusal wirejson.Value
	if f := field.Typed(&t, v, wirejson.Into("text", &text), wirejson.Into("refusal", &refusal)); f != nil {
		return prompt.Part{}, f
	}
	switch kind := t.Text(); {
	case kind == "input_text", kind == "output_text" && m.Role == prompt.RoleAssistant:
		return prompt.TextPart("text", text)
	case kind == "refusal" && m.Role == prompt.RoleAssistant:
		return prompt.TextPart("refusal", refusal)
	case kind == "input_image" && (m.Role == prompt.RoleUser || m.Role == prompt.RoleTool):
		return readImage(v)
	default:
		return prompt.Part{}, unknownItemPart(m, kind).In("type")
	}
}

func readImage(v wirejson.Value) (prompt.Part, *field.Error) {
	var image, detail, file wirejson.Value
	f := field.Object(v, wirejson.Into("image_url", &image), wirejson.Into("detail", &detail), wirejson.Into("file_id", &file))
	f = cmp.Or(f, field.Refuse(file, "there are no files here; send the image as a data URL in 'image_url'").In("file_id"))
	part, noImage := prompt.ImagePart(image, detail, "image_url")
	return part, cmp.Or(f, noImage)
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
