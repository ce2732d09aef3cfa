package responses

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// The types of the items for calls of tools that OpenAI defines and the client runs.
const (
	typeShellCall = "shell_call"
	typePatchCall = "apply_patch_call"
)

// The names of tools that OpenAI defines and the client runs. The model gets functions of these names.
const (
	shellTool = "shell"
	patchTool = "apply_patch"
)

// clientTool describes a tool that OpenAI defines and the client runs, and the function that stands for it.
type clientTool struct {
	callType    string // the type of the items for calls of the tool
	description string
	schema      json.RawMessage
}

var clientTools = map[string]clientTool{
	shellTool: {typeShellCall, "Runs shell commands on the user's machine and returns what each of them writes, and how it ends. " +
		"The commands run one after the other.", json.RawMessage(`{"type":"object","properties":{` +
		`"commands":{"type":"array","items":{"type":"string"}},` +
		`"timeout_ms":{"type":"integer","description":"Time for all commands, in milliseconds."},` +
		`"max_output_length":{"type":"integer","description":"Most characters of the output of each command."}},"required":["commands"]}`)},
	patchTool: {typePatchCall, "Creates, updates or deletes a file of the user. The diff of create_file has all lines of the file, each with a + before it. " +
		"That of update_file has hunks: a line @@ with what is around the change, if that is needed, then lines that begin with a space, - or +.",
		json.RawMessage(`{"type":"object","properties":{` +
			`"type":{"type":"string","enum":["create_file","update_file","delete_file"]},"path":{"type":"string"},` +
			`"diff":{"type":"string","description":"For create_file and update_file."}},"required":["type","path"]}`)},
}

func readClientTool(name string, v wirejson.Value) (declaredTool, *field.Error) {
	tool := clientTools[name]
	t := prompt.Tool{Name: name, Description: tool.description, Schema: tool.schema}
	var environment wirejson.Value
	if name == shellTool {
		v.Pick(wirejson.Into("environment", &environment))
	}
	return declaredTool{t, originalTool{callType: tool.callType, name: name}}, checkLocalEnvironment(environment).In("environment")
}

func checkLocalEnvironment(v wirejson.Value) *field.Error {
	var kind wirejson.Value
	if !v.Given() {
		return nil
	}
	f := field.Typed(&kind, v)
	if f == nil && !kind.Is("local") {
		f = field.Unsupported("must be local: there are no containers here, the client runs the commands").In("type")
	}
	return f
}

// readClientCall reads a call of a tool that OpenAI defines and the client runs. It sets call.Name and
// call.Arguments. The arguments are the members of the item's action or operation, except those that are
// null, which the model has not written.
func (i *inputItem) readClientCall(call *prompt.Call, fields itemFields) *field.Error {
	call.Name = strings.TrimSuffix(i.kind, "_call")
	member, v := "action", fields.action
	if i.kind == typePatchCall {
		member, v = "operation", fields.operation
	}
	if f := field.Expect(wirejson.KindObject, v); f != nil {
		return f.In(member)
	}
	arguments := appendMembers(nil, v, func(_ string, v wirejson.Value) bool { return v.Given() })
	call.Arguments = wirejson.AppendString(nil, append(append([]byte{'{'}, bytes.TrimPrefix(arguments, []byte{','})...), '}'))
	return nil
}

func (i *inputItem) readClientOutput(_ *Request, fields itemFields) *field.Error {
	if f := i.readAnsweredCallID(fields); f != nil {
		return f
	}
	if i.kind == typeShellCall+"_output" {
		i.message.Text = quoted(fields.output)
		return field.Expect(wirejson.KindArray, fields.output).In("output")
	}
	// The item is the output of the patch tool. Its status says whether the patch was applied.
	var status, output string
	f := cmp.Or(field.String(&status, fields.status).In("status"), field.Text(&output, fields.output).In("output"))
	if output != "" {
		status += ": " + output
	}
	i.message.Text = wirejson.AppendString(nil, status)
	return f
}

// clientCall has the members of the items for calls of the shell and patch tools. Other items do
// not have these members, except that the item of a web search has Action.
type clientCall struct {
	Action      any              `json:"action,omitempty"`
	Operation   *patchOperation  `json:"operation,omitempty"`
	Environment *json.RawMessage `json:"environment,omitempty"` // nil: the member is absent; otherwise its value is null
}

// shellAction is the action of a call of the shell tool (FunctionShellAction).
type shellAction struct {
	Commands        []string `json:"commands"`
	TimeoutMS       *int64   `json:"timeout_ms"`
	MaxOutputLength *int64   `json:"max_output_length"`
}

// patchOperation is the operation of a call of the patch tool (ApplyPatchOperation).
type patchOperation struct {
	Type string  `json:"type"`
	Path string  `json:"path"`
	Diff *string `json:"diff,omitempty"`
}

// newClientCall returns the members of the item for a call. arguments is the JSON that the model wrote.
// Missing or wrong arguments become empty members. An operation of an unknown type becomes update_file.
func newClientCall(tool originalTool, arguments string) (c clientCall) {
	switch tool.callType {
	case typeShellCall:
		action := &shellAction{Commands: []string{}}
		_ = json.Unmarshal([]byte(arguments), action)
		null := json.RawMessage("null")
		c.Action, c.Environment = action, &null
	case typePatchCall:
		c.Operation = newPatchOperation(arguments)
	}
	return c
}

func newPatchOperation(arguments string) *patchOperation {
	o := new(patchOperation)
	_ = json.Unmarshal([]byte(arguments), o)
	switch o.Type {
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
