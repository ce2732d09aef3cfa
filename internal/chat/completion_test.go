package chat

import (
	"fmt"
	"strings"
	"testing"

	sdk "github.com/openai/openai-go/v3"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

func TestDecodeCompletion(t *testing.T) {
	r, apiErr := DecodeCompletion([]byte(`{"model":"m","prompt":["Once upon"],"echo":true,"n":2,"best_of":2,"stop":"END","max_tokens":7,"stream":true,
		"stream_options":{"include_usage":true},"temperature":0.2,"logprobs":null,"suffix":"","user":"u","tools":7}`))
	if apiErr != nil {
		t.Fatal(apiErr)
	}
	p, apiErr := r.Plan(prompt.Options{})
	if apiErr != nil {
		t.Fatal(apiErr)
	}
	if r.Echo() != "Once upon" || p.Choices != 2 || p.MaxTokens != 7 || !p.IncludeUsage || !p.Stream || p.StopSequences[0] != "END" || strings.Join(p.Ignored, " ") != "temperature" {
		t.Errorf("%+v", p)
	}
	if len(p.Turn.Input) != 1 || p.Turn.Input[0].Text != "Once upon" || !strings.Contains(*p.Thread.BaseInstructions, "complete texts") || p.Thread.Config.Own["model_reasoning_summary"] != "none" {
		t.Errorf("%+v", p)
	}
}

func TestDecodeCompletionRefuses(t *testing.T) {
	for fields, want := range map[string]struct {
		param string
		code  apierror.Code
	}{
		`"n":1`:                            {"prompt", apierror.CodeMissingParameter},
		`"prompt":null`:                    {"prompt", apierror.CodeMissingParameter},
		`"prompt":7`:                       {"prompt", apierror.CodeInvalidType},
		`"prompt":[]`:                      {"prompt", apierror.CodeInvalidValue},
		`"prompt":["a","b"]`:               {"prompt", apierror.CodeUnsupportedParameter},
		`"prompt":[1,2]`:                   {"prompt[0]", apierror.CodeUnsupportedParameter},
		`"prompt":[[1]]`:                   {"prompt[0]", apierror.CodeUnsupportedParameter},
		`"prompt":[true]`:                  {"prompt[0]", apierror.CodeInvalidType},
		`"prompt":"a","suffix":"b"`:        {"suffix", apierror.CodeUnsupportedParameter},
		`"prompt":"a","suffix":1`:          {"suffix", apierror.CodeInvalidType},
		`"prompt":"a","echo":1`:            {"echo", apierror.CodeInvalidType},
		`"prompt":"a","logprobs":0`:        {"logprobs", apierror.CodeUnsupportedParameter},
		`"prompt":"a","logprobs":true`:     {"logprobs", apierror.CodeInvalidType},
		`"prompt":"a","best_of":2`:         {"best_of", apierror.CodeUnsupportedParameter},
		`"prompt":"a","best_of":0`:         {"best_of", apierror.CodeInvalidValue},
		`"prompt":"a","n":9`:               {"n", apierror.CodeInvalidValue},
		`"prompt":"a","stream_options":{}`: {"stream_options", apierror.CodeInvalidValue},
	} {
		if _, err := DecodeCompletion([]byte(`{"model":"m",` + fields + `}`)); err == nil || err.Param != want.param || err.Code != want.code || err.Status != 400 {
			t.Errorf("%s: %v", fields, err)
		}
	}
	if _, err := DecodeCompletion([]byte(`{"prompt":"a"}`)); err == nil || err.Param != "model" {
		t.Error(err)
	}
}

// TestAnswers compares what a stream adds up to with the body, and reads both with the
// SDK.
func TestAnswers(t *testing.T) {
	meta := CompletionMeta{Settings: prompt.Settings{Model: "m", IncludeUsage: true, Choices: 2}, ID: "cmpl-1", Created: 3, Echo: "Once "}
	outs := []struct {
		choice int
		out    turn.Output
	}{
		{0, turn.Output{Kind: turn.OutputReasoning, Text: "hm"}},
		{0, turn.Output{Kind: turn.OutputText, Text: "up\"on"}},
		{1, turn.Output{Kind: turn.OutputFinish, End: &turn.End{Finish: turn.FinishLength}}},
		{0, turn.Output{Kind: turn.OutputText, Text: " a time"}},
		{0, turn.Output{Kind: turn.OutputFinish, End: &turn.End{Finish: turn.FinishStop, Usage: codexrpc.Usage{InputTokens: 3, OutputTokens: 4, TotalTokens: 7}}}},
		{0, turn.Output{Kind: turn.OutputText, Text: "late"}},
	}
	var chunks []string
	texts, finish := make([]string, 2), make([]string, 2)
	s := NewCompletionStream(meta, func(data []byte) error {
		chunks = append(chunks, string(data))
		var c sdk.Completion
		if err := c.UnmarshalJSON(data); err != nil || c.ID != "cmpl-1" || string(c.Object) != "text_completion" || c.Created != 3 || c.Model != "m" {
			t.Errorf("%s %v", data, err)
		}
		for _, choice := range c.Choices {
			texts[choice.Index] += choice.Text
			finish[choice.Index] += string(choice.FinishReason)
		}
		return nil
	})
	b := NewCompletionBody(meta)
	for _, o := range outs {
		if err := s.Write(o.choice, o.out); err != nil {
			t.Fatal(err)
		}
		b.Add(o.choice, o.out)
	}
	if got := fmt.Sprintf("%q %q", texts, finish); !s.Done() || got != `["Once up\"on a time" "Once "] ["stop" "length"]` {
		t.Errorf("%s", got)
	}
	const first = `{"id":"cmpl-1","object":"text_completion","created":3,"model":"m","choices":[{"text":"Once ","index":0,"logprobs":null,"finish_reason":null}],"usage":null}`
	if last := chunks[len(chunks)-1]; chunks[0] != first || !strings.Contains(last, `"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7`) {
		t.Errorf("%s\n%s", chunks[0], last)
	}
	const choices = `"choices":[{"text":"Once up\"on a time","index":0,"logprobs":null,"finish_reason":"stop"},{"text":"Once ","index":1,"logprobs":null,"finish_reason":"length"}],"usage":{`
	if body := string(b.JSON()); !strings.Contains(body, choices) {
		t.Errorf("%s", body)
	}
}

func TestStreamFails(t *testing.T) {
	var chunks []string
	s := NewCompletionStream(CompletionMeta{Settings: prompt.Settings{Choices: 1}}, func(data []byte) error { chunks = append(chunks, string(data)); return nil })
	_ = s.Fail(apierror.QueueFull())
	_ = s.Write(0, turn.Output{Kind: turn.OutputText, Text: "x"})
	_ = s.Fail(apierror.QueueFull())
	if len(chunks) != 1 || !s.Done() || !strings.Contains(chunks[0], `{"error":`) {
		t.Errorf("%q", chunks)
	}
}
