package responses

import (
	"encoding/json"

	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/jsontext"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
)

// The types of the calls of tools that are OpenAI's own but run by the client.
const (
	itemShell      = "shell_call"
	itemLocalShell = "local_shell_call"
	itemPatch      = "apply_patch_call"
	itemComputer   = "computer_call"
)

// The names of these tools, which are also those of the functions that stand for them.
const (
	shellTool           = "shell"
	localShellTool      = "local_shell"
	patchTool           = "apply_patch"
	computerTool        = "computer"
	computerPreviewTool = "computer_use_preview"
)

// clientTool is the function that stands for a tool that the client runs.
type clientTool struct {
	call        string // the type of its calls
	description string
	schema      json.RawMessage
}

var clientTools = map[string]clientTool{
	shellTool: {itemShell, "Runs shell commands on the user's machine and returns what each of them writes, and how it ends. " +
		"The commands run one after the other.", json.RawMessage(`{"type":"object","properties":{` +
		`"commands":{"type":"array","items":{"type":"string"}},` +
		`"timeout_ms":{"type":"integer","description":"Time for all commands, in milliseconds."},` +
		`"max_output_length":{"type":"integer","description":"Most characters of the output of each command."}},"required":["commands"]}`)},
	localShellTool: {itemLocalShell, "Runs a command on the user's machine and returns what it writes.", json.RawMessage(`{"type":"object","properties":{` +
		`"command":{"type":"array","items":{"type":"string"},"description":"The program and its arguments."},` +
		`"timeout_ms":{"type":"integer"},"working_directory":{"type":"string"},` +
		`"env":{"type":"object","additionalProperties":{"type":"string"}},"user":{"type":"string"}},"required":["command"]}`)},
	patchTool: {itemPatch, "Creates, updates or deletes a file of the user. The diff of create_file has all lines of the file, each with a + before it. " +
		"That of update_file has hunks: a line @@ with what is around the change, if that is needed, then lines that begin with a space, - or +.",
		json.RawMessage(`{"type":"object","properties":{` +
			`"type":{"type":"string","enum":["create_file","update_file","delete_file"]},"path":{"type":"string"},` +
			`"diff":{"type":"string","description":"For create_file and update_file."}},"required":["type","path"]}`)},
	computerTool: {itemComputer, "Controls the user's computer by mouse and keyboard, one action after the other, and returns a screenshot.",
		json.RawMessage(`{"type":"object","properties":{"actions":{"type":"array","items":` + computerAction + `}},"required":["actions"]}`)},
	computerPreviewTool: {itemComputer, "Controls the user's computer by mouse and keyboard, one action at a time, and returns a screenshot.",
		json.RawMessage(computerAction)},
}

// computerAction is the schema of a ComputerAction.
const computerAction = `{"type":"object","properties":{` +
	`"type":{"type":"string","enum":["click","double_click","drag","keypress","move","screenshot","scroll","type","wait"]},` +
	`"x":{"type":"integer"},"y":{"type":"integer"},"scroll_x":{"type":"integer"},"scroll_y":{"type":"integer"},` +
	`"button":{"type":"string","enum":["left","right","wheel","back","forward"]},` +
	`"keys":{"type":"array","items":{"type":"string"}},"text":{"type":"string"},` +
	`"path":{"type":"array","items":{"type":"object","properties":{"x":{"type":"integer"},"y":{"type":"integer"}},"required":["x","y"]}}},` +
	`"required":["type"]}`

// readClientTool reads a tool that the client runs.
func readClientTool(name string, v jsontext.Value) (moreTool, *field.Error) {
	tool := clientTools[name]
	t := prompt.Tool{Name: name, Description: tool.description, Schema: tool.schema}
	var environment, width, height jsontext.Value
	v.Pick(jsontext.Into("environment", &environment), jsontext.Into("display_width", &width), jsontext.Into("display_height", &height))
	switch name {
	case shellTool:
		if f := checkLocal(environment); f != nil {
			return moreTool{}, f.In("environment")
		}
	case computerPreviewTool:
		if f := field.NonEmpty(environment); f != nil {
			return moreTool{}, f.In("environment")
		}
		if _, f := field.Count(width); f != nil {
			return moreTool{}, f.In("display_width")
		}
		if _, f := field.Count(height); f != nil {
			return moreTool{}, f.In("display_height")
		}
		t.Description += " The environment is " + environment.Text() + ", the display has " + string(width) + " by " + string(height) + " pixels."
	}
	return moreTool{t, toolForm{kind: tool.call, name: name}}, nil
}

// checkLocal refuses an environment that is not the client's own machine.
func checkLocal(v jsontext.Value) *field.Error {
	if f := field.Optional(jsontext.KindObject, v); f != nil || !v.Given() {
		return f
	}
	var kind jsontext.Value
	v.Pick(jsontext.Into("type", &kind))
	if f := field.Expect(jsontext.KindString, kind); f != nil {
		return f.In("type")
	}
	if !kind.Is("local") {
		return field.Unsupported("must be local: there are no containers here, the client runs the commands").In("type")
	}
	return nil
}

// readClientCall reads the call of a tool that the client runs. It returns the name of the
// tool and the arguments, as the model wrote them but for members that are null.
func (i *inputItem) readClientCall(fields itemFields) (name string, arguments []byte, _ *field.Error) {
	member, v := "action", fields.action
	switch i.kind {
	case itemShell:
		name = shellTool
	case itemLocalShell:
		name = localShellTool
	case itemPatch:
		name, member, v = patchTool, "operation", fields.operation
	case itemComputer:
		if fields.actions.Given() {
			arguments := jsontext.Append(nil, map[string]jsontext.Value{"actions": jsontext.Value(fields.actions.Compact())})
			return computerTool, arguments, field.Expect(jsontext.KindArray, fields.actions).In("actions")
		}
		name = computerPreviewTool
	}
	if f := field.Expect(jsontext.KindObject, v); f != nil {
		return "", nil, f.In(member)
	}
	return name, givenMembers(v, i.kind == itemLocalShell), nil
}

// givenMembers returns an object without the members that are null, and without the type
// and an empty environment of a local shell's action, which the model does not write.
func givenMembers(v jsontext.Value, localShell bool) []byte {
	object := []byte{'{'}
	for name, v := range v.Members() {
		if !v.Given() || localShell && (string(name) == "type" || string(name) == "env" && v.Equals("{}")) {
			continue
		}
		if len(object) > 1 {
			object = append(object, ',')
		}
		object = append(jsontext.AppendString(object, name), ':')
		object = append(object, v.Compact()...)
	}
	return append(object, '}')
}

// readClientOutput reads the output of the call of a tool that the client runs.
func (i *inputItem) readClientOutput(_ *Request, fields itemFields) *field.Error {
	if i.kind == itemLocalShell+"_output" && !fields.callID.Given() {
		fields.callID = fields.id // some clients have the id of the call there
	}
	if f := i.readAnswered(fields); f != nil {
		return f
	}
	switch i.kind {
	case itemComputer + "_output":
		return i.readScreenshot(fields.output).In("output")
	case itemShell + "_output":
		i.message.Text = jsontext.AppendString(nil, []byte(fields.output.Compact()))
		return field.Expect(jsontext.KindArray, fields.output).In("output")
	case itemLocalShell + "_output":
		i.message.Text = fields.output
		return field.Expect(jsontext.KindString, fields.output).In("output")
	}
	// That of a patch: whether it was applied, and a text.
	if f := field.Expect(jsontext.KindString, fields.status); f != nil {
		return f.In("status")
	}
	if f := field.Optional(jsontext.KindString, fields.output); f != nil {
		return f.In("output")
	}
	text := fields.status.Text()
	if fields.output.Given() && len(fields.output.RawText()) > 0 {
		text += ": " + fields.output.Text()
	}
	i.message.Text = jsontext.AppendString(nil, text)
	return nil
}

// readScreenshot reads the output of a computer.
func (i *inputItem) readScreenshot(v jsontext.Value) *field.Error {
	if f := field.Expect(jsontext.KindObject, v); f != nil {
		return f
	}
	part, f := readInputImage(readPartFields(v))
	i.message.Content = []prompt.Part{part}
	return f
}
