package e2e

import (
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/shared"

	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// answer is a finished chat completion, streamed or not.
type answer struct {
	content string
	calls   []openai.ChatCompletionMessageToolCallUnion
	finish  string
	usage   openai.CompletionUsage
	chunks  int // number of chunks of a stream
}

// complete sends a request with the official SDK, without streaming.
func (s *site) complete(params openai.ChatCompletionNewParams) (answer, error) {
	client := s.client()
	completion, err := client.Chat.Completions.New(testContext(s.t), params)
	if err != nil {
		return answer{}, err
	}
	choice := completion.Choices[0]
	return answer{choice.Message.Content, choice.Message.ToolCalls, choice.FinishReason, completion.Usage, 0}, nil
}

// stream sends a request with the official SDK, with streaming and its accumulator.
func (s *site) stream(params openai.ChatCompletionNewParams) (answer, error) {
	client := s.client()
	params.StreamOptions.IncludeUsage = openai.Bool(true)
	stream := client.Chat.Completions.NewStreaming(testContext(s.t), params)
	defer stream.Close()
	var acc openai.ChatCompletionAccumulator
	chunks := 0
	for stream.Next() {
		chunks++
		if !acc.AddChunk(stream.Current()) {
			s.t.Error("the SDK's accumulator refuses the chunk", stream.Current().RawJSON())
		}
	}
	if err := stream.Err(); err != nil {
		return answer{}, err
	}
	if len(acc.Choices) == 0 {
		s.t.Fatal("a stream without a choice")
	}
	choice := acc.Choices[0]
	return answer{choice.Message.Content, choice.Message.ToolCalls, choice.FinishReason, acc.Usage, chunks}, nil
}

// bothWays runs a test with and without streaming.
func bothWays(t *testing.T, s *site, test func(t *testing.T, ask func(openai.ChatCompletionNewParams) (answer, error))) {
	t.Run("whole", func(t *testing.T) { test(t, s.at(t).complete) })
	t.Run("streamed", func(t *testing.T) { test(t, s.at(t).stream) })
}

// at returns the site for a subtest.
func (s *site) at(t testing.TB) *site {
	sub := *s
	sub.t = t
	return &sub
}

func userSays(text string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model:    "gpt-5",
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(text)},
	}
}

// searchTool returns a tool with this name.
func searchTool(name string) openai.ChatCompletionToolUnionParam {
	return openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
		Name:        name,
		Description: openai.String("Search the vault"),
		Parameters: shared.FunctionParameters{
			"type":       "object",
			"properties": map[string]any{"query": map[string]any{"type": "string"}},
			"required":   []string{"query"},
		},
	})
}

func TestText(t *testing.T) {
	s := newSite(t, "")
	texts := map[string]string{
		"plain":     "The quick brown fox; jumps over the lazy dog.",
		"multibyte": "Grüße aus dem Vault — 你好 👋🏽, e\u0301 \u2028 ﷽",
		"repeats":   "l l ll aa aa aaaa ha ha ha",
		"markup":    "if a < b && b > c { return \"<b>\\n</b>\" } `x`\n\n```go\nfmt.Println()\n```\n",
	}
	for name, text := range texts {
		t.Run(name, func(t *testing.T) {
			bothWays(t, s.at(t), func(t *testing.T, ask func(openai.ChatCompletionNewParams) (answer, error)) {
				got, err := ask(userSays("chunk=3; verbatim:" + text))
				if err != nil {
					t.Fatal(err)
				}
				if got.content != text || got.finish != "stop" || len(got.calls) != 0 {
					t.Errorf("got %q, finish %s, %d calls; want %q", got.content, got.finish, len(got.calls), text)
				}
				checkUsage(t, got.usage, scriptedmodel.DefaultUsage)
			})
		})
	}
}

func checkUsage(t *testing.T, got openai.CompletionUsage, want scriptedmodel.Usage) {
	t.Helper()
	have := scriptedmodel.Usage{
		Input:     int(got.PromptTokens),
		Cached:    int(got.PromptTokensDetails.CachedTokens),
		Output:    int(got.CompletionTokens),
		Reasoning: int(got.CompletionTokensDetails.ReasoningTokens),
	}
	if have != want || got.TotalTokens != int64(want.Input+want.Output) {
		t.Errorf("usage %+v, total %d; want %+v", have, got.TotalTokens, want)
	}
}

func TestToolCalls(t *testing.T) {
	s := newSite(t, "")
	for prompt, want := range map[string][]string{
		`tool:1 localSearch {"query":"notes %d"}`: {`{"query":"notes 1"}`},
		`tool:3 localSearch {"query":"ünï %d"}`:   {`{"query":"ünï 1"}`, `{"query":"ünï 2"}`, `{"query":"ünï 3"}`},
	} {
		t.Run(prompt, func(t *testing.T) {
			bothWays(t, s.at(t), func(t *testing.T, ask func(openai.ChatCompletionNewParams) (answer, error)) {
				params := userSays(prompt)
				params.Tools = []openai.ChatCompletionToolUnionParam{searchTool("localSearch")}
				got, err := ask(params)
				if err != nil {
					t.Fatal(err)
				}
				if got.finish != "tool_calls" || got.content != "" || len(got.calls) != len(want) {
					t.Fatalf("finish %s, content %q, %d calls", got.finish, got.content, len(got.calls))
				}
				ids := make(map[string]bool)
				for i, call := range got.calls {
					if call.Function.Name != "localSearch" || call.Function.Arguments != want[i] || call.Type != "function" {
						t.Errorf("call %d: %s %s(%s)", i, call.Type, call.Function.Name, call.Function.Arguments)
					}
					if ids[call.ID] || !strings.HasPrefix(call.ID, "tool_0_") {
						t.Errorf("call %d has the id %q", i, call.ID)
					}
					ids[call.ID] = true
				}
				checkUsage(t, got.usage, scriptedmodel.DefaultUsage)
			})
		})
	}
}

func TestTextThenTool(t *testing.T) {
	s := newSite(t, "")
	bothWays(t, s, func(t *testing.T, ask func(openai.ChatCompletionNewParams) (answer, error)) {
		params := userSays(`say:Let me look.; tool:localSearch {"query":"x"}`)
		params.Tools = []openai.ChatCompletionToolUnionParam{searchTool("localSearch")}
		got, err := ask(params)
		if err != nil {
			t.Fatal(err)
		}
		if got.content != "Let me look." || len(got.calls) != 1 || got.finish != "tool_calls" {
			t.Errorf("%+v", got)
		}
	})
}

// TestToolResults sends the results of several calls, and checks that the model gets
// them with their calls.
func TestToolResults(t *testing.T) {
	overBoth(t, func(t *testing.T) {
		for _, conversations := range []string{"on", "off"} {
			t.Run("conversations "+conversations, func(t *testing.T) {
				testToolResults(t, newSite(t, "conversations "+conversations))
			})
		}
	})
}

func testToolResults(t *testing.T, s *site) {
	bothWays(t, s, func(t *testing.T, ask func(openai.ChatCompletionNewParams) (answer, error)) {
		params := userSays(`tool:3 localSearch {"query":"notes %d"}; then; say:All three are read.`)
		params.Tools = []openai.ChatCompletionToolUnionParam{searchTool("localSearch")}
		first, err := ask(params)
		if err != nil {
			t.Fatal(err)
		}
		var assistant openai.ChatCompletionAssistantMessageParam
		for _, call := range first.calls {
			assistant.ToolCalls = append(assistant.ToolCalls, openai.ChatCompletionMessageToolCallUnionParam{
				OfFunction: &openai.ChatCompletionMessageFunctionToolCallParam{
					ID: call.ID,
					Function: openai.ChatCompletionMessageFunctionToolCallFunctionParam{
						Name: call.Function.Name, Arguments: call.Function.Arguments,
					},
				},
			})
		}
		params.Messages = append(params.Messages, openai.ChatCompletionMessageParamUnion{OfAssistant: &assistant})
		for _, call := range first.calls {
			params.Messages = append(params.Messages, openai.ToolMessage("found: "+call.Function.Arguments, call.ID))
		}
		second, err := ask(params)
		if err != nil {
			t.Fatal(err)
		}
		if second.content != "All three are read." || second.finish != "stop" {
			t.Errorf("%+v", second)
		}
		s.checkResults(t, first.calls)
	})
}

// checkResults checks that the last request to the model has each call and its output,
// verbatim and in order.
func (s *site) checkResults(t *testing.T, calls []openai.ChatCompletionMessageToolCallUnion) {
	t.Helper()
	request, ok := s.model.Last()
	if !ok {
		t.Fatal("the model was not asked")
	}
	var ids, outputs []string
	for _, item := range request.Input {
		switch item.Type {
		case "function_call":
			ids = append(ids, item.CallID) // the model's own where the turn has gone on
		case "function_call_output":
			outputs = append(outputs, item.CallID+" "+item.Output[0].Text)
		}
	}
	if len(ids) != len(calls) {
		t.Fatalf("the model sees the calls %q", ids)
	}
	for i, call := range calls {
		if want := ids[i] + " found: " + call.Function.Arguments; i >= len(outputs) || outputs[i] != want {
			t.Errorf("output %d of %q; want %s", i, outputs, want)
		}
	}
}
