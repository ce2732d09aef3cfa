package conversations

import (
	"encoding/json"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/shared"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// TestAnotherEffort checks that a conversation stays in its thread when its effort changes, if the
// model takes that: the provider gets the same cache key, the new effort and, over a WebSocket,
// only what is new. With another model the conversation goes to another thread.
func TestAnotherEffort(t *testing.T) { e2e.OverBoth(t, testAnotherEffort) }

func testAnotherEffort(t *testing.T) {
	for model, stays := range map[string]bool{"gpt-6.1-sol": true, "gpt-6-sol": false} {
		t.Run(model, func(t *testing.T) {
			s := e2e.NewSite(t, "")
			client := s.Client()
			tools := []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
				Name: "find", Parameters: shared.FunctionParameters{"type": "object"},
			})}
			messages := []openai.ChatCompletionMessageParamUnion{openai.SystemMessage("You are brief.")}
			efforts := []string{"low", "high", "high", "low"}
			for _, effort := range efforts {
				messages = append(messages, openai.UserMessage("say:done with "+effort))
				answer, err := client.Chat.Completions.New(e2e.Context(t), openai.ChatCompletionNewParams{
					Model: model, Messages: messages, Tools: tools, ReasoningEffort: shared.ReasoningEffort(effort),
				})
				if err != nil {
					t.Fatal(err)
				}
				messages = append(messages, answer.Choices[0].Message.ToParam())
			}
			requests, prompts := s.Model.Requests(), s.Prompts()
			if len(requests) != len(efforts) {
				t.Fatalf("the model was asked %d times", len(requests))
			}
			for i := range requests {
				if got := effortOf(t, requests[i].Reasoning.Effort, prompts[i].Input); got != efforts[i] {
					t.Errorf("request %d has the effort %q", i, got)
				}
				if i == 0 {
					continue
				}
				kept := stays || efforts[i] == efforts[i-1]
				if same := prompts[i].Key == prompts[i-1].Key; same != kept {
					t.Errorf("request %d: the cache key is the same: %t", i, same)
				}
				if e2e.Transport == scriptedmodel.WebSocket && kept && requests[i].PreviousResponseID == "" {
					t.Errorf("request %d was sent as a whole", i)
				}
				if err := prompts[i].Extends(prompts[i-1]); kept && err != nil {
					t.Errorf("request %d %v", i, err)
				}
			}
		})
	}
}

// TestAnotherEffortWhileParked checks that the results of calls reach the model also if they come
// with another effort than the turn that waits for them has.
func TestAnotherEffortWhileParked(t *testing.T) { e2e.OverBoth(t, testAnotherEffortWhileParked) }

func testAnotherEffortWhileParked(t *testing.T) {
	s := e2e.NewSite(t, "")
	client := s.Client()
	ask := func(effort string, messages ...openai.ChatCompletionMessageParamUnion) openai.ChatCompletionMessage {
		answer, err := client.Chat.Completions.New(e2e.Context(t), openai.ChatCompletionNewParams{
			Model: "gpt-6.1-sol", Messages: messages, ReasoningEffort: shared.ReasoningEffort(effort),
			Tools: []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
				Name: "find", Parameters: shared.FunctionParameters{"type": "object"},
			})},
		})
		if err != nil {
			t.Fatal(err)
		}
		return answer.Choices[0].Message
	}
	question := openai.UserMessage("tool: find {}\nthen\nsay: Found.")
	called := ask("low", question)
	if len(called.ToolCalls) != 1 {
		t.Fatalf("got %+v", called)
	}
	if end := ask("high", question, called.ToParam(), openai.ToolMessage("here", called.ToolCalls[0].ID)); end.Content != "Found." {
		t.Errorf("got %+v", end)
	}
	requests, prompts := s.Model.Requests(), s.Prompts()
	if last := len(requests) - 1; last != 1 || effortOf(t, requests[last].Reasoning.Effort, prompts[last].Input) != "high" {
		t.Errorf("the model was asked %d times, in the end %s", len(requests), requests[last].Body)
	}
}

// effortOf returns the effort that the model is to have: that of the request, or of the last update
// in its input, as which Codex sends another effort to OpenAI.
func effortOf(t *testing.T, effort string, input []json.RawMessage) string {
	for _, raw := range input {
		var item struct {
			Type      string
			Reasoning scriptedmodel.Reasoning
		}
		if err := json.Unmarshal(raw, &item); item.Type == "configuration_update" {
			if err != nil {
				t.Error(err)
			}
			effort = item.Reasoning.Effort
		}
	}
	return effort
}
