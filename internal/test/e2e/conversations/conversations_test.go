package conversations

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/shared"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// TestConversation runs three turns of an agent with three rounds of tool calls each,
// and checks that the provider gets one conversation that only grows.
func TestConversation(t *testing.T) { e2e.OverBoth(t, testConversation) }

func testConversation(t *testing.T) {
	s := e2e.NewSite(t, "")
	client := s.Client()
	tools := []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
		Name: "find", Parameters: shared.FunctionParameters{"type": "object", "properties": map[string]any{"q": map[string]any{"type": "string"}}},
	})}
	messages := []openai.ChatCompletionMessageParamUnion{openai.SystemMessage("You are an agent.")}
	var heard []string
	for turn := range 3 {
		messages = append(messages, openai.UserMessage(fmt.Sprintf(`reason: turn %d
say: I look.
tool: find {"q": "a"}
tool: find {"q":  "b"}
then
tool: find {"q": "c"}
then
reason: more
tool: find {"q": "d"}
then
say: Done with %d.`, turn, turn)))
		for range 4 {
			answer, err := client.Chat.Completions.New(e2e.Context(t), openai.ChatCompletionNewParams{Model: "gpt-5", Messages: messages, Tools: tools})
			if err != nil {
				t.Fatal(err)
			}
			message := answer.Choices[0].Message
			messages = append(messages, message.ToParam())
			if answer.Usage.PromptTokens != int64(scriptedmodel.DefaultUsage.Input) {
				t.Errorf("the usage is %+v", answer.Usage)
			}
			heard = append(heard, message.Content)
			for i, call := range message.ToolCalls {
				messages = append(messages, openai.ToolMessage(fmt.Sprintf("result %d of %s", i, call.Function.Arguments), call.ID))
			}
		}
	}
	if want := strings.Repeat("I look.|||Done with %d.|", 3); strings.Join(heard, "|")+"|" != fmt.Sprintf(want, 0, 1, 2) {
		t.Errorf("heard %q", heard)
	}
	all := s.Prompts()
	if len(all) != 12 {
		t.Fatalf("the model was asked %d times", len(all))
	}
	for i, one := range all[1:] {
		if one.Key != all[0].Key {
			t.Errorf("request %d has another cache key", i+1)
		}
		if err := one.Extends(all[i]); err != nil {
			t.Errorf("request %d %v", i+1, err)
		}
	}
	last := describeAll(all[11].Input)
	for _, want := range []string{`"output":"result 1 of {\"q\":  \"b\"}"`, `"encrypted_content"`} {
		if !strings.Contains(last, want) {
			t.Errorf("the model was not given %s in\n%s", want, last)
		}
	}
}

func describeAll(input []json.RawMessage) string {
	var lines strings.Builder
	for _, item := range input {
		lines.Write(item)
		lines.WriteByte('\n')
	}
	return lines.String()
}
