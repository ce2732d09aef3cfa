package responses

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"
	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/test/apischema"
	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

func TestMain(m *testing.M) { os.Exit(e2e.Main(m)) }

func TestResponsesReasoning(t *testing.T) { e2e.OverBoth(t, testResponsesReasoning) }

func testResponsesReasoning(t *testing.T) {
	s := e2e.NewSite(t, "")
	prompt := "usage:100,20,30,10; reason:First.\n\nSecond.; reason:Again.; say:Done."
	e2e.EachWay(t, s, func(t *testing.T, s *e2e.Site, stream bool) {
		r := s.Respond(e2e.Asks(prompt, e2e.Fields{
			"stream": stream, "reasoning": e2e.Fields{"effort": "high", "summary": "detailed"}, "include": []string{"reasoning.encrypted_content"},
		}), nil)
		if r.Types() != "reasoning reasoning message" || len(r.Output[0].Summary) != 2 || r.Output[0].Summary[1].Text != "Second." || r.Output[0].Encrypted == "" {
			t.Fatalf("%+v", r.Output)
		}
		request, _ := s.Model.Last()
		if request.Reasoning.Effort != "high" || request.Reasoning.Summary != "detailed" {
			t.Errorf("the model was asked for %+v", request.Reasoning)
		}
		if u := r.Usage; u.Input != 100 || u.InputDetails.Cached != 20 || u.Output != 30 || u.OutputDetails.Reasoning != 10 || u.Total != 130 {
			t.Errorf("usage %+v", u)
		}
		// The model gets its reasoning back, with its own id.
		reasoning := e2e.Fields{"type": "reasoning", "id": r.Output[0].ID, "summary": []any{}, "encrypted_content": r.Output[0].Encrypted}
		s.Respond(e2e.Asks([]any{e2e.Says("user", "q"), reasoning, e2e.Says("assistant", "a"), e2e.Says("user", "say:Fine.")}, e2e.Fields{"stream": stream}), nil)
		request, _ = s.Model.Last()
		at := slices.IndexFunc(request.Input, func(i scriptedmodel.Item) bool { return i.Type == "reasoning" })
		if at < 0 || request.Input[at].EncryptedContent != r.Output[0].Encrypted || !strings.HasSuffix(r.Output[0].Encrypted, " "+request.Input[at].ID) {
			t.Errorf("the model was given %+v", request.Input)
		}
	})
	r := s.Respond(e2e.Asks(prompt, nil), nil)
	if request, _ := s.Model.Last(); r.Types() == "" || r.Output[0].Encrypted != "" || request.Reasoning.Summary != "" {
		t.Errorf("nobody asked for a summary: %s, %+v", r.Types(), request.Reasoning)
	}
}

// TestResponsesEnds checks incomplete and failed responses, before and after the first event.
func TestResponsesEnds(t *testing.T) { e2e.OverBoth(t, testResponsesEnds) }

func testResponsesEnds(t *testing.T) {
	s := e2e.NewSite(t, "")
	e2e.EachWay(t, s, func(t *testing.T, s *e2e.Site, stream bool) {
		for reason := range map[string]bool{"max_output_tokens": true, "content_filter": true} {
			r := s.Respond(e2e.Asks("say:It is; incomplete:"+reason, e2e.Fields{"stream": stream}), nil)
			if r.Status != "incomplete" || r.Incomplete == nil || r.Incomplete.Reason != reason || r.Text() != "It is" || r.Output[0].Status != "incomplete" {
				t.Errorf("%s: %+v", reason, r)
			}
		}
		r := s.Respond(e2e.Asks("chunk=3; say:"+strings.Repeat("word ", 40), e2e.Fields{"stream": stream, "max_output_tokens": 16}), nil)
		if r.Status != "incomplete" || r.Incomplete == nil || r.Incomplete.Reason != "max_output_tokens" || strings.Count(r.Text(), "word") > 16 || r.Text() == "" {
			t.Errorf("at most 16 tokens: %+v", r)
		}
		slow, wait := "fail:rate_limit_exceeded Slow down. Please try again in 7s.", "7"
		if e2e.Transport == scriptedmodel.WebSocket {
			slow, wait = "fail:rate_limit_exceeded Slow down.", "1" // Codex would wait for that time
		}
		for prompt, want := range map[string]struct{ status, code, wait, param string }{
			slow:                           {"429", "rate_limit_exceeded", wait, ""},
			"fail:context_length_exceeded": {"400", "context_length_exceeded", "", "input"},
		} {
			began := time.Now()
			answer, text := s.Call(http.MethodPost, "/v1/responses", e2e.Asks(prompt, e2e.Fields{"stream": stream}), nil)
			refused := gjson.Get(text, "error")
			if e2e.IsLate(answer, began) {
				if !strings.Contains(text, "event: response.failed") || !strings.Contains(text, `"code":"`+want.code+`"`) {
					t.Error(text)
				}
			} else if answer.Status[:3] != want.status || answer.Header.Get("Retry-After") != want.wait || refused.Get("code").Str != want.code || refused.Get("param").Str != want.param {
				t.Errorf("%s %s %s", answer.Status, answer.Header.Get("Retry-After"), text)
			} else if err := apischema.Check("ErrorResponse", []byte(text)); err != nil {
				t.Error(err)
			}
		}
	})
	r := s.Respond(e2e.Asks("chunk=2; say:It is so; fail:server_error Broken.", e2e.Fields{"stream": true}), nil)
	if r.Status != "failed" || r.Text() != "It is so" || !strings.Contains(string(r.Error), `"code":"server_error"`) || r.Events[len(r.Events)-1].Type != "response.failed" {
		t.Errorf("after the first event: %s %s", r.Status, r.Error)
	}
	status, body := s.Get("/v1/responses/" + r.ID)
	if status != http.StatusOK || s.ParseResponse([]byte(body)).Status != "failed" {
		t.Errorf("kept as %d %s", status, body)
	}
}

// TestResponsesSettings checks which settings of a request reach the model.
func TestResponsesSettings(t *testing.T) {
	s := e2e.NewSite(t, "")
	schema := e2e.Fields{"type": "object", "properties": e2e.Fields{"a": e2e.Fields{"type": "string"}}, "required": []string{"a"}, "additionalProperties": false}
	answer, body := s.Call(http.MethodPost, "/v1/responses", e2e.Asks(`verbatim:{"a":"b"}`, e2e.Fields{
		"instructions": "Be brief.",
		"text":         e2e.Fields{"format": e2e.Fields{"type": "json_schema", "name": "n", "schema": schema, "strict": true}, "verbosity": "low"},
		"tools":        []e2e.Fields{e2e.FunctionTool("localSearch"), e2e.FunctionTool("exec_command")},
		"tool_choice":  e2e.Fields{"type": "allowed_tools", "mode": "auto", "tools": []e2e.Fields{{"type": "function", "name": "exec_command"}}},
		"metadata":     e2e.Fields{"k": "v"}, "temperature": 0.5, "truncation": "auto", "user": "u", "stream_options": e2e.Fields{"include_obfuscation": false},
	}), nil)
	if answer.StatusCode != http.StatusOK {
		t.Fatal(body)
	}
	s.ParseResponse([]byte(body))
	if got := answer.Header.Get("X-Codex-Ignored-Params"); got != "temperature" {
		t.Errorf("ignored %q", got)
	}
	var echo map[string]json.RawMessage
	must.OK(t, json.Unmarshal([]byte(body), &echo))
	for name, want := range map[string]string{
		"instructions": `"Be brief."`, "metadata": `{"k":"v"}`, "temperature": "0.5", "truncation": `"auto"`, "user": `"u"`, "store": "true", "parallel_tool_calls": "true",
	} {
		if got := string(echo[name]); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	request, _ := s.Model.Last()
	e2e.CheckTools(t, request.Tools, "client_exec_command")
	if got := e2e.Describe(request); !slices.Contains(got, "developer: Be brief.") || request.Text.Format.Type != "json_schema" || !request.Text.Format.Strict {
		t.Errorf("the model was given %q, %+v", got, request.Text.Format)
	}
}

// askSDK sends a request with the official SDK, streamed or not.
func askSDK(s *e2e.Site, params responses.ResponseNewParams, stream bool) (*responses.Response, error) {
	client := s.Client()
	if !stream {
		return client.Responses.New(e2e.Context(s.T), params)
	}
	events := client.Responses.NewStreaming(e2e.Context(s.T), params)
	defer events.Close()
	var text, arguments string
	var last *responses.Response
	for events.Next() {
		switch e := events.Current().AsAny().(type) {
		case responses.ResponseTextDeltaEvent:
			text += e.Delta
		case responses.ResponseFunctionCallArgumentsDeltaEvent:
			arguments += e.Delta
		case responses.ResponseCompletedEvent:
			last = &e.Response
		case responses.ResponseIncompleteEvent:
			last = &e.Response
		case responses.ResponseFailedEvent:
			last = &e.Response
		}
	}
	if err := events.Err(); err != nil {
		return nil, err
	}
	if last == nil {
		s.T.Fatal("a stream without an end")
	}
	if text != last.OutputText() {
		s.T.Errorf("deltas %q, response %q", text, last.OutputText())
	}
	if want := sdkArguments(last); arguments != want {
		s.T.Errorf("deltas %q, response %q", arguments, want)
	}
	return last, nil
}

func sdkArguments(r *responses.Response) (all string) {
	for _, item := range r.Output {
		if item.Type == "function_call" {
			all += item.AsFunctionCall().Arguments
		}
	}
	return all
}

// TestResponsesSDK runs a conversation with a tool with the official Go client.
func TestResponsesSDK(t *testing.T) {
	s := e2e.NewSite(t, "")
	tool := responses.ToolUnionParam{OfFunction: &responses.FunctionToolParam{
		Name: "localSearch", Strict: openai.Bool(false),
		Parameters: map[string]any{"type": "object", "properties": map[string]any{"query": map[string]any{"type": "string"}}},
	}}
	e2e.EachWay(t, s, func(t *testing.T, s *e2e.Site, stream bool) {
		first, err := askSDK(s, responses.ResponseNewParams{
			Model:     "gpt-5",
			Input:     responses.ResponseNewParamsInputUnion{OfString: openai.String(`reason:Let me see.; say:I look.; tool:2 localSearch {"query":"%d"}`)},
			Tools:     []responses.ToolUnionParam{tool},
			Reasoning: shared.ReasoningParam{Summary: shared.ReasoningSummaryAuto},
			Metadata:  shared.Metadata{"topic": "notes"},
		}, stream)
		must.OK(t, err)
		if first.Status != responses.ResponseStatusCompleted || first.OutputText() != "I look." || len(first.Output) != 4 || first.Metadata["topic"] != "notes" || first.Usage.TotalTokens == 0 {
			t.Fatal(first.RawJSON())
		}
		var outputs responses.ResponseInputParam
		for _, item := range first.Output {
			if item.Type == "function_call" {
				output := responses.ResponseInputItemParamOfFunctionCallOutput("found " + item.AsFunctionCall().Arguments)
				output.OfFunctionCallOutput.CallID = openai.String(item.AsFunctionCall().CallID)
				outputs = append(outputs, output)
			}
		}
		next, err := askSDK(s, responses.ResponseNewParams{
			Model:              "gpt-5",
			PreviousResponseID: param.NewOpt(first.ID),
			Input:              responses.ResponseNewParamsInputUnion{OfInputItemList: outputs},
			Tools:              []responses.ToolUnionParam{tool},
		}, stream)
		if err != nil || !strings.Contains(next.OutputText(), `found {"query":"2"}`) {
			t.Fatalf("%+v, %v", next, err)
		}

		client := s.Client()
		ctx := e2e.Context(t)
		if read, err := client.Responses.Get(ctx, next.ID, responses.ResponseGetParams{}); err != nil || read.OutputText() != next.OutputText() || read.PreviousResponseID != first.ID {
			t.Errorf("%+v, %v", read, err)
		}
		items := client.Responses.InputItems.ListAutoPaging(ctx, next.ID, responses.InputItemListParams{Limit: openai.Int(1), Order: "asc"})
		var answered []string
		for items.Next() {
			answered = append(answered, items.Current().Type)
		}
		if err := items.Err(); err != nil || strings.Join(answered, " ") != "function_call_output function_call_output" {
			t.Errorf("input items %q, %v", answered, err)
		}
		if err := client.Responses.Delete(ctx, next.ID); err != nil {
			t.Error(err)
		}
		var refused *openai.Error
		if _, err := client.Responses.Get(ctx, next.ID, responses.ResponseGetParams{}); !errors.As(err, &refused) || refused.StatusCode != 404 {
			t.Errorf("read after it was deleted: %v", err)
		}
	})
}
