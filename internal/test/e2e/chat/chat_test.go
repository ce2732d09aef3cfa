package chat

import (
	"testing"

	"github.com/openai/openai-go/v3"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// bothWays runs a test with and without streaming.
func bothWays(t *testing.T, s *e2e.Site, test func(t *testing.T, ask func(openai.ChatCompletionNewParams) (e2e.Answer, error))) {
	t.Run("whole", func(t *testing.T) { test(t, s.At(t).Complete) })
	t.Run("streamed", func(t *testing.T) { test(t, s.At(t).Stream) })
}

func TestText(t *testing.T) {
	s := e2e.NewSite(t, "")
	texts := map[string]string{
		"plain":     "The quick brown fox; jumps over the lazy dog.",
		"multibyte": "Grüße aus dem Vault — 你好 👋🏽, e\u0301 \u2028 ﷽",
		"repeats":   "l l ll aa aa aaaa ha ha ha",
		"markup":    "if a < b && b > c { return \"<b>\\n</b>\" } `x`\n\n```go\nfmt.Println()\n```\n",
	}
	for name, text := range texts {
		t.Run(name, func(t *testing.T) {
			bothWays(t, s.At(t), func(t *testing.T, ask func(openai.ChatCompletionNewParams) (e2e.Answer, error)) {
				got, err := ask(e2e.UserSays("chunk=3; verbatim:" + text))
				if err != nil {
					t.Fatal(err)
				}
				if got.Content != text || got.Finish != "stop" || len(got.Calls) != 0 {
					t.Errorf("got %q, finish %s, %d calls; want %q", got.Content, got.Finish, len(got.Calls), text)
				}
				e2e.CheckUsage(t, got.Usage, scriptedmodel.DefaultUsage)
			})
		})
	}
}

// TestToolResults sends the results of several calls, and checks that the model gets
// them with their calls.
func TestToolResults(t *testing.T) {
	e2e.OverBoth(t, func(t *testing.T) {
		for _, conversations := range []string{"on", "off"} {
			t.Run("conversations "+conversations, func(t *testing.T) {
				testToolResults(t, e2e.NewSite(t, "conversations "+conversations))
			})
		}
	})
}

func testToolResults(t *testing.T, s *e2e.Site) {
	bothWays(t, s, func(t *testing.T, ask func(openai.ChatCompletionNewParams) (e2e.Answer, error)) {
		params := e2e.UserSays(`tool:3 localSearch {"query":"notes %d"}; then; say:All three are read.`)
		params.Tools = []openai.ChatCompletionToolUnionParam{e2e.SearchTool("localSearch")}
		first, err := ask(params)
		if err != nil {
			t.Fatal(err)
		}
		var assistant openai.ChatCompletionAssistantMessageParam
		for _, call := range first.Calls {
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
		for _, call := range first.Calls {
			params.Messages = append(params.Messages, openai.ToolMessage("found: "+call.Function.Arguments, call.ID))
		}
		second, err := ask(params)
		if err != nil {
			t.Fatal(err)
		}
		if second.Content != "All three are read." || second.Finish != "stop" {
			t.Errorf("%+v", second)
		}
		checkResults(t, s, first.Calls)
	})
}

// checkResults checks that the last request to the model has each call and its output,
// verbatim and in order.
func checkResults(t *testing.T, s *e2e.Site, calls []openai.ChatCompletionMessageToolCallUnion) {
	t.Helper()
	request, ok := s.Model.Last()
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
