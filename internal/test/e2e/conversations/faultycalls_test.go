package conversations

import (
	"slices"
	"testing"

	"github.com/openai/openai-go/v3"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// sameID is a prompt for three calls with one call id. The third has the second's arguments.
const sameID = `callid=call_1; tool:localSearch {"query":"a"}; tool:localSearch {"query":"b"}; tool:localSearch {"query":"b"}`

// TestToolSameCallID: calls with one id but items of their own stay apart, by the client's ids.
func TestToolSameCallID(t *testing.T) {
	s := e2e.NewSite(t, "")
	content := useTool("localSearch", "a") + useTool("localSearch", "b") + useTool("localSearch", "b")
	for mode, want := range map[string]*string{e2e.ModeJSON: nil, e2e.ModeXML: &content} {
		got := s.AskBoth(e2e.Question{Prompt: sameID, Tools: true, Mode: mode})
		e2e.CheckReply(t, got, want, e2e.Searches("a", "b", "b"), "tool_calls")
		if slices.Sort(got.IDs); len(slices.Compact(got.IDs)) != 3 {
			t.Errorf("%s: the ids are %q", mode, got.IDs)
		}
	}
	// Calls with other names, and several choices.
	params := e2e.UserSays(`callid=call_1; tool:first {"q":1}; tool:second {"q":1}; then; say:Both.`)
	params.Tools = []openai.ChatCompletionToolUnionParam{e2e.SearchTool("first"), e2e.SearchTool("second")}
	params.N = openai.Int(2)
	completion, err := s.NewCompletion(params)
	must.OK(t, err)
	for _, choice := range completion.Choices {
		calls := choice.Message.ToolCalls
		if len(calls) != 2 || calls[0].Function.Name != "first" || calls[1].Function.Name != "second" || calls[0].ID == calls[1].ID {
			t.Fatalf("choice %d: %s", choice.Index, choice.RawJSON())
		}
		next := params
		next.N = openai.Int(1)
		next.Messages = append(slices.Clone(params.Messages), choice.Message.ToParam(),
			openai.ToolMessage("one", calls[0].ID), openai.ToolMessage("two", calls[1].ID))
		checkBothResults(s, next, calls[0].ID, calls[1].ID)
	}
}

func checkBothResults(s *e2e.Site, params openai.ChatCompletionNewParams, first, second string) {
	s.T.Helper()
	completion, err := s.NewCompletion(params)
	must.OK(s.T, err)
	if text := completion.Choices[0].Message.Content; text != "Both." {
		s.T.Errorf("after the results: %q", text)
	}
	heard := s.Heard()
	if want := []string{"output " + first + " one", "output " + second + " two"}; !slices.Equal(heard[len(heard)-2:], want) {
		s.T.Errorf("the model heard %q, want %q in the end", heard, want)
	}
}
