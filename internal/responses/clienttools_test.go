package responses

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

const everyClientTool = `"tools":[{"type":"shell"},{"type":"apply_patch"}]`

// clientCalls are calls of tools that the client runs: the function, its arguments, and
// the item without its ids.
var clientCalls = []struct{ name, arguments, item string }{
	{"shell", `{"commands":["ls"],"timeout_ms":100}`, `"type":"shell_call","status":"completed","call_id":"c","action":{"commands":["ls"],"timeout_ms":100,"max_output_length":null},"environment":null`},
	{"apply_patch", `{"type":"create_file","path":"a","diff":"+x"}`, `"type":"apply_patch_call","status":"completed","call_id":"c","operation":{"type":"create_file","path":"a","diff":"+x"}`},
	{"apply_patch", `{"type":"delete_file","path":"a"}`, `"type":"apply_patch_call","status":"completed","call_id":"c","operation":{"type":"delete_file","path":"a"}`},
}

// TestClientCalls makes items of calls, and of these items the calls that the model had made.
func TestClientCalls(t *testing.T) {
	meta := responseOf(t, withMember(everyClientTool)).Meta(testSuffix)
	for _, c := range clientCalls {
		outs := []turn.Output{
			callOut(0, "c", c.name, c.arguments), {Kind: turn.OutputFinish, End: &turn.End{Finish: turn.FinishToolCalls}},
		}
		checkResponseFold(t, meta, outs)
		events, _ := streamOf(t, meta, outs)
		item := string(events[len(events)-2].Whole)
		if _, rest, _ := strings.Cut(item, `,`); rest != c.item+"}" {
			t.Errorf("%s: %s", c.name, item)
		}
		output := `{"type":"` + meta.request.originalTools[c.name].callType + `_output","call_id":"c","status":"failed","output":` + map[string]string{
			"shell": `[{"stdout":"a","stderr":"","outcome":{"type":"exit","exit_code":1}}]`, "apply_patch": `"no such file"`,
		}[c.name] + `}`
		r := responseOf(t, withInput(item+`,`+output))
		if call := r.Messages[0].Calls[0]; call.Name != c.name || call.Arguments.Text() != c.arguments {
			t.Errorf("%s: the history has %s %s", c.name, call.Name, call.Arguments.Text())
		}
		p, apiErr := r.Plan(prompt.Options{})
		if apiErr != nil {
			t.Fatal(apiErr)
		}
		want := map[string]string{
			"shell": `"[{\"stdout\":\"a\",\"stderr\":\"\",\"outcome\":{\"type\":\"exit\",\"exit_code\":1}}]"`, "apply_patch": `"failed: no such file"`,
		}[c.name]
		if got := string(p.History[1]); got != `{"type":"function_call_output","call_id":"c","output":`+want+`}` {
			t.Errorf("%s: %s", c.name, got)
		}
		for _, kept := range r.InputItems("x") {
			if !strings.Contains(string(kept), `"status":"`) || !json.Valid(kept) {
				t.Errorf("%s is kept as %s", c.name, kept)
			}
		}
	}
}

// TestClientCallsOddArguments checks that a model's odd arguments make items that are
// still in OpenAI's form.
func TestClientCallsOddArguments(t *testing.T) {
	meta := responseOf(t, withMember(everyClientTool)).Meta(testSuffix)
	for _, name := range []string{"shell", "apply_patch"} {
		for _, arguments := range []string{"", "{", "[]", `"x"`, "{}", `{"commands":"ls","command":7,"type":"x","path":1}`} {
			checkResponseFold(t, meta, []turn.Output{
				callOut(0, "c", name, arguments), {Kind: turn.OutputFinish, End: &turn.End{Finish: turn.FinishToolCalls}},
			})
		}
	}
}

func TestClientToolsChosen(t *testing.T) {
	for choice, want := range map[string]string{
		`{"type":"shell"}`: "shell", `{"type":"apply_patch"}`: "apply_patch",
		`{"type":"allowed_tools","mode":"auto","tools":[{"type":"apply_patch"}]}`: "apply_patch",
	} {
		r := responseOf(t, withMember(everyClientTool+`,"tool_choice":`+choice))
		if len(r.Choice.Only) != 1 || r.Choice.Only[0] != want {
			t.Errorf("%s: %q", choice, r.Choice.Only)
		}
	}
}

func TestClientToolsRefused(t *testing.T) {
	for body, want := range map[string]struct {
		param string
		code  apierror.Code
	}{
		withMember(`"tools":[{"type":"shell","environment":{"type":"container_auto"}}]`):                                                  {"tools[0].environment.type", apierror.CodeUnsupportedParameter},
		withMember(`"tools":[{"type":"shell","environment":"local"}]`):                                                                    {"tools[0].environment", apierror.CodeInvalidType},
		withMember(`"tools":[{"type":"shell"},{"type":"function","name":"shell"}]`):                                                       {"tools[1].name", apierror.CodeInvalidValue},
		withMember(`"tools":[{"type":"namespace","name":"n","tools":[{"type":"shell"}]}]`):                                                {"tools[0].tools[0].type", apierror.CodeUnsupportedParameter},
		withMember(`"tool_choice":{"type":"shell"}`):                                                                                      {"tool_choice", apierror.CodeInvalidValue},
		withInput(`{"type":"shell_call","call_id":"c"}`):                                                                                  {"input[0].action", apierror.CodeMissingParameter},
		withInput(`{"type":"apply_patch_call","call_id":"c","operation":1}`):                                                              {"input[0].operation", apierror.CodeInvalidType},
		withInput(`{"type":"shell_call","call_id":"c","action":{"commands":[]}},{"type":"shell_call_output","call_id":"c","output":"x"}`): {"input[1].output", apierror.CodeInvalidType},
		withInput(`{"type":"apply_patch_call","call_id":"c","operation":{}},{"type":"apply_patch_call_output","call_id":"c"}`):            {"input[1].status", apierror.CodeMissingParameter},
	} {
		if err := decodeAll(body); err == nil || err.Param != want.param || err.Code != want.code {
			t.Errorf("%s: %v", body, err)
		}
	}
}

// TestRefusedWithAdvice checks that the errors for OpenAI's tools and items that are not supported
// name what does the same.
func TestRefusedWithAdvice(t *testing.T) {
	for body, want := range map[string]string{
		withMember(`"tools":[{"type":"image_generation"}]`): "tools[0].type: 'image_generation' is not supported: POST /v1/images/generations makes pictures. (400 unsupported_parameter)",
		withInput(`{"type":"image_generation_call"}`):       "input[0].type: an item of the type 'image_generation_call' cannot be passed on to Codex; send its picture as an input_image in a message of the user. (400 unsupported_parameter)",
		withMember(`"tools":[{"type":"local_shell"}]`):      "tools[0].type: 'local_shell' is not supported: use the tool shell. (400 unsupported_parameter)",
		withInput(`{"type":"local_shell_call"}`):            "input[0].type: an item of the type 'local_shell_call' cannot be passed on to Codex; send it as a shell_call. (400 unsupported_parameter)",
		withInput(`{"type":"local_shell_call_output"}`):     "input[0].type: an item of the type 'local_shell_call_output' cannot be passed on to Codex; send it as a shell_call_output. (400 unsupported_parameter)",
	} {
		if _, err := Decode([]byte(body)); err == nil || err.Error() != want {
			t.Errorf("%s: %v", body, err)
		}
	}
	// Codex itself works without the picture tool, but not without its shell.
	for tool, skipped := range map[string]bool{"image_generation": true, "local_shell": false} {
		_, err := Decode([]byte(withMember(`"client_metadata":{"x-codex-installation-id":"i"},"tools":[{"type":"` + tool + `"}]`)))
		if (err == nil) != skipped {
			t.Errorf("%s of Codex: %v", tool, err)
		}
	}
}
