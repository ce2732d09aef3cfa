package responses

import "encoding/json"

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

// read reads the members that have the right type.
func read(arguments string, into any) { _ = json.Unmarshal([]byte(arguments), into) }

func newPatchOperation(arguments string) *patchOperation {
	operation := new(patchOperation)
	read(arguments, operation)
	switch operation.Type {
	case "delete_file":
		operation.Diff = nil
		return operation
	case "create_file":
	default:
		operation.Type = "update_file"
	}
	if operation.Diff == nil {
		operation.Diff = new(string)
	}
	return operation
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
