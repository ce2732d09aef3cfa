package chat

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
)

// TestDecodeResponsesBody decodes a body of the Responses API, as an editor posts it to
// the route of chat completions.
func TestDecodeResponsesBody(t *testing.T) {
	r := mustDecode(t, `{
		"model":"m","stream":true,"stream_options":{"include_usage":true},"store":false,"n":2,"stop":"END",
		"instructions":"Be brief.","max_output_tokens":50,
		"reasoning":{"effort":"high","summary":"detailed"},"text":{"verbosity":"low"},"include":["reasoning.encrypted_content"],
		"tools":[
			{"type":"function","name":"read","parameters":{"type":"object"}},
			{"type":"function","function":{"name":"write"}},
			{"type":"custom","name":"patch","format":{"type":"grammar","syntax":"lark","definition":"start: A"}}],
		"tool_choice":{"type":"custom","name":"patch"},
		"input":[
			{"role":"system","content":"You edit."},
			{"role":"user","content":[{"type":"input_text","text":"go"}]},
			{"type":"reasoning","id":"rs_1","summary":[]},
			{"type":"function_call","call_id":"a","name":"patch","arguments":"*** Begin Patch"},
			{"type":"function_call_output","call_id":"a","output":"done"},
			{"type":"custom_tool_call","call_id":"b","name":"patch","input":"x"},
			{"type":"custom_tool_call_output","call_id":"b","output":"done"},
			{"role":"user","content":"again"}]}`)
	p, apiErr := r.Plan(prompt.Options{})
	if apiErr != nil {
		t.Fatal(apiErr)
	}
	if *p.Thread.BaseInstructions != "Be brief.\n\nYou edit." || p.MaxTokens != 50 || p.Choices != 2 || !p.Stream || !p.IncludeUsage || !slices.Equal(p.StopSequences, []string{"END"}) {
		t.Errorf("%q %+v", *p.Thread.BaseInstructions, p)
	}
	if c := p.Thread.Config.Own; c["model_reasoning_effort"] != "high" || c["model_reasoning_summary"] != "detailed" || c["model_verbosity"] != "low" {
		t.Errorf("%v", c)
	}
	if tools := p.Thread.DynamicTools; len(tools) != 1 || tools[0].Name != "patch" || !strings.Contains(tools[0].Description, "start: A") {
		t.Errorf("%+v", tools)
	}
	var arguments []string
	for _, item := range p.History {
		var call struct{ Type, Arguments string }
		if err := json.Unmarshal(item, &call); err != nil {
			t.Fatal(err)
		}
		if call.Type == "function_call" {
			arguments = append(arguments, call.Arguments)
		}
	}
	if want := []string{`{"input":"*** Begin Patch"}`, `{"input":"x"}`}; !slices.Equal(arguments, want) {
		t.Errorf("got %q", arguments)
	}
	if len(p.Turn.Input) != 1 || p.Turn.Input[0].Text != "again" {
		t.Errorf("%+v", p.Turn.Input)
	}
	if r.Forms["patch"] != textForm || r.Forms["read"] != 0 {
		t.Errorf("%v", r.Forms)
	}
}

// TestDecodeResponsesBodyRefuses checks the errors of members and items that have no
// meaning for a chat completion.
func TestDecodeResponsesBodyRefuses(t *testing.T) {
	const call = `{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}`
	for more, want := range map[string]struct {
		param string
		code  apierror.Code
		says  string
	}{
		`"input":"q","previous_response_id":"resp_1"`:                      {"previous_response_id", apierror.CodeUnsupportedParameter, "not stored"},
		`"input":"q","conversation":"conv_1"`:                              {"conversation", apierror.CodeUnsupportedParameter, "not stored"},
		`"input":"q","background":true`:                                    {"background", apierror.CodeUnsupportedParameter, "not stored"},
		`"input":"q","prompt":{}`:                                          {"prompt", apierror.CodeUnsupportedParameter, "instructions"},
		`"input":[{"id":"msg_1"}]`:                                         {"input[0].id", apierror.CodeUnsupportedParameter, "not stored"},
		`"input":[{"type":"additional_tools","tools":[]}]`:                 {"input[0].type", apierror.CodeUnsupportedParameter, "POST /v1/responses"},
		`"input":[{"type":"message","role":"tool","content":"x"}]`:         {"input[0].role", apierror.CodeInvalidValue, "assistant"},
		`"input":[` + call + `]`:                                           {"input[0].call_id", apierror.CodeInvalidValue, "no output"},
		`"input":[{"role":"user","content":[{"type":"text","text":"x"}]}]`: {"input[0].content[0].type", apierror.CodeInvalidValue, "input_text"},
		`"input":7`: {"input", apierror.CodeInvalidType, "array of items"},
		`"input":"q","tools":[{"type":"namespace","name":"n","tools":[]}]`:                {"tools[0].type", apierror.CodeUnsupportedParameter, "function"},
		`"input":"q","include":["message.output_text.logprobs"]`:                          {"include[0]", apierror.CodeUnsupportedParameter, "log probabilities"},
		`"input":"q","stream_options":{}`:                                                 {"stream_options", apierror.CodeInvalidValue, "'stream' is true"},
		`"input":"q","functions":[{"name":"f"}],"tools":[{"type":"function","name":"g"}]`: {"functions", apierror.CodeInvalidValue, "'tools' alone"},
	} {
		_, err := Decode([]byte(`{"model":"m",` + more + `}`))
		if err == nil {
			t.Errorf("accepted %s", more)
		} else if err.Status != 400 || err.Param != want.param || err.Code != want.code || !strings.Contains(err.Message, want.says) {
			t.Errorf("%s: %v, param %q, code %q", more, err, err.Param, err.Code)
		}
	}
}

// TestResponsesBodyImages names the place of an image in the input.
func TestResponsesBodyImages(t *testing.T) {
	const url = "https://example.com/a.png"
	r := mustDecode(t, `{"model":"m","instructions":"i","input":[{"role":"user","content":"x"},{"role":"user","content":[{"type":"input_image","image_url":"`+url+`"}]}]}`)
	if got := r.ImageParam(url); got != "input[1].content[0].image_url" {
		t.Errorf("got %q", got)
	}
	if _, err := r.Plan(prompt.Options{}); err == nil || err.Param != "input[1].content[0].image_url" {
		t.Errorf("%v", err)
	}
	if !r.SetImages(map[string]string{url: pngURL}) {
		t.Fatal("too large")
	}
	if p, err := r.Plan(prompt.Options{}); err != nil || p.Turn.Input[0].URL != pngURL {
		t.Errorf("%+v %v", p, err)
	}
}
