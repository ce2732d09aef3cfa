package responses

import (
	"errors"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

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
		if err != nil {
			t.Fatal(err)
		}
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
