package responses

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"

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

func readClientTool(name string, v jsontext.Value) (moreTool, *field.Error) {
	tool := clientTools[name]
	t := prompt.Tool{Name: name, Description: tool.description, Schema: tool.schema}
	var environment, width, height jsontext.Value
	v.Pick(jsontext.Into("environment", &environment), jsontext.Into("display_width", &width), jsontext.Into("display_height", &height))
	var f *field.Error
	switch name {
	case shellTool:
		f = checkLocal(environment).In("environment")
	case computerPreviewTool:
		f = cmp.Or(field.NonEmpty(environment).In("environment"),
			field.Count(new(int), width).In("display_width"), field.Count(new(int), height).In("display_height"))
		if f == nil {
			t.Description += " The environment is " + environment.Text() + ", the display has " + string(width) + " by " + string(height) + " pixels."
		}
	}
	return moreTool{t, toolForm{kind: tool.call, name: name}}, f
}

// checkLocal refuses an environment that is not the client's own machine.
func checkLocal(v jsontext.Value) *field.Error {
	var kind jsontext.Value
	if !v.Given() {
		return nil
	}
	f := field.Typed(&kind, v)
	if f == nil && !kind.Is("local") {
		f = field.Unsupported("must be local: there are no containers here, the client runs the commands").In("type")
	}
	return f
}

// readClientCall reads the name and the arguments of the call of a tool that the client runs:
// as the model wrote them but for members that are null.
func (i *inputItem) readClientCall(call *prompt.Call, fields itemFields) *field.Error {
	call.Name = strings.TrimSuffix(i.kind, "_call")
	member, v := "action", fields.action
	switch {
	case i.kind == itemPatch:
		member, v = "operation", fields.operation
	case i.kind == itemComputer && fields.actions.Given():
		call.Arguments = quoted(jsontext.Append(nil, map[string]jsontext.Value{"actions": fields.actions}))
		return field.Expect(jsontext.KindArray, fields.actions).In("actions")
	case i.kind == itemComputer:
		call.Name = computerPreviewTool
	}
	if f := field.Expect(jsontext.KindObject, v); f != nil {
		return f.In(member)
	}
	// The model does not write the type and an empty environment of a local shell's action.
	arguments := appendMembers(nil, v, func(name string, v jsontext.Value) bool {
		return v.Given() && (i.kind != itemLocalShell || name != "type" && (name != "env" || !v.Equals("{}")))
	})
	call.Arguments = jsontext.AppendString(nil, append(append([]byte{'{'}, bytes.TrimPrefix(arguments, []byte{','})...), '}'))
	return nil
}

func (i *inputItem) readClientOutput(_ *Request, fields itemFields) *field.Error {
	if i.kind == itemLocalShell+"_output" && !fields.callID.Given() {
		fields.callID = fields.id // some clients have the id of the call there
	}
	if f := i.readAnswered(fields); f != nil {
		return f
	}
	switch i.kind {
	case itemComputer + "_output":
		p, f := readImage(fields.output)
		i.message.Content = []prompt.Part{p}
		return f.In("output")
	case itemShell + "_output":
		i.message.Text = quoted(fields.output)
		return field.Expect(jsontext.KindArray, fields.output).In("output")
	case itemLocalShell + "_output":
		i.message.Text = fields.output
		return field.Expect(jsontext.KindString, fields.output).In("output")
	}
	// That of a patch: whether it was applied, and a text.
	var status, output string
	f := cmp.Or(field.String(&status, fields.status).In("status"), field.Text(&output, fields.output).In("output"))
	if output != "" {
		status += ": " + output
	}
	i.message.Text = jsontext.AppendString(nil, status)
	return f
}

// clientCall is what the item of a call of a tool that the client runs has of its own.
type clientCall struct {
	Action       any              `json:"action,omitempty"`
	Actions      []computerInput  `json:"actions,omitempty"`
	Operation    *patchOperation  `json:"operation,omitempty"`
	SafetyChecks []struct{}       `json:"pending_safety_checks,omitzero"` // empty, or absent
	Environment  *json.RawMessage `json:"environment,omitempty"`          // null, or absent
}

// shellAction is a FunctionShellAction.
type shellAction struct {
	Commands        []string `json:"commands"`
	TimeoutMS       *int64   `json:"timeout_ms"`
	MaxOutputLength *int64   `json:"max_output_length"`
}

// execAction is a LocalShellExecAction.
type execAction struct {
	Type             string            `json:"type"`
	Command          []string          `json:"command"`
	TimeoutMS        *int64            `json:"timeout_ms,omitempty"`
	WorkingDirectory *string           `json:"working_directory,omitempty"`
	Env              map[string]string `json:"env"`
	User             *string           `json:"user,omitempty"`
}

// patchOperation is an ApplyPatchOperation.
type patchOperation struct {
	Type string  `json:"type"`
	Path string  `json:"path"`
	Diff *string `json:"diff,omitempty"`
}

// computerInput is a ComputerAction. Which members it has depends on its type.
type computerInput struct {
	Type    string       `json:"type"`
	Button  string       `json:"button,omitempty"`
	X       *int64       `json:"x,omitempty"`
	Y       *int64       `json:"y,omitempty"`
	ScrollX *int64       `json:"scroll_x,omitempty"`
	ScrollY *int64       `json:"scroll_y,omitempty"`
	Text    *string      `json:"text,omitempty"`
	Keys    any          `json:"keys,omitempty"`
	Path    []coordinate `json:"path,omitempty"`
}

type coordinate struct {
	X int64 `json:"x"`
	Y int64 `json:"y"`
}

// newClientCall returns what the item has of its own. arguments are those of the function
// that the model has called; what is not in them or of a wrong type is empty.
func newClientCall(form toolForm, arguments string) (c clientCall) {
	switch form.kind {
	case itemShell:
		action := &shellAction{Commands: []string{}}
		read(arguments, action)
		null := json.RawMessage("null")
		c.Action, c.Environment = action, &null
	case itemLocalShell:
		action := &execAction{Command: []string{}, Env: map[string]string{}}
		read(arguments, action)
		action.Type = "exec"
		c.Action = action
	case itemPatch:
		c.Operation = newPatchOperation(arguments)
	case itemComputer:
		c.SafetyChecks = []struct{}{}
		if form.name == computerTool {
			var call struct{ Actions []computerInput }
			read(arguments, &call)
			for i := range call.Actions {
				call.Actions[i].complete()
			}
			c.Actions = call.Actions
		} else if action := new(computerInput); arguments != "" {
			read(arguments, action)
			action.complete()
			c.Action = action
		}
	}
	return c
}

func read(arguments string, into any) { _ = json.Unmarshal([]byte(arguments), into) }

func newPatchOperation(arguments string) *patchOperation {
	o := new(patchOperation)
	switch read(arguments, o); o.Type {
	case "delete_file":
		o.Diff = nil
		return o
	case "create_file":
	default:
		o.Type = "update_file"
	}
	o.Diff = cmp.Or(o.Diff, new(string))
	return o
}

// complete adds what OpenAI's description requires of an action.
func (a *computerInput) complete() {
	switch {
	case a.Type == "click" && a.Button == "":
		a.Button = "left"
	case a.Type == "double_click" && a.Keys == nil:
		a.Keys = json.RawMessage("null")
	}
}
