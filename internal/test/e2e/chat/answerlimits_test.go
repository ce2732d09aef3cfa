package chat

import (
	"testing"

	"github.com/openai/openai-go/v3"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// TestStopSequences: the text, however cut, and the turn end before the first stop sequence.
func TestStopSequences(t *testing.T) {
	s := e2e.NewSite(t, "")
	for name, c := range map[string]struct {
		prompt string
		stop   []string
		want   string
		finish string
		calls  int
	}{
		"in the middle":      {"say:One END two", []string{"END"}, "One ", "stop", 0},
		"the tag of a block": {`say:I look. <use_tool><name>search</name></use_tool>`, []string{"<use_tool>"}, "I look. ", "stop", 0},
		"after a block":      {`say:<use_tool><name>search</name><query>x</query></use_tool> and STOP more`, []string{"STOP"}, "", "tool_calls", 1},
	} {
		t.Run(name, func(t *testing.T) {
			for _, chunk := range []string{"chunk=1; ", "chunk=3; ", "chunk=all; "} {
				bothWays(t, s.At(t), func(t *testing.T, ask func(openai.ChatCompletionNewParams) (e2e.Answer, error)) {
					params := e2e.UserSays(chunk + c.prompt)
					params.Stop.OfStringArray = c.stop
					params.Tools = []openai.ChatCompletionToolUnionParam{e2e.SearchTool("search")}
					got, err := ask(params)
					must.OK(t, err)
					if got.Content != c.want || got.Finish != c.finish || len(got.Calls) != c.calls {
						t.Errorf("got %q, %s, %d calls; want %q, %s, %d", got.Content, got.Finish, len(got.Calls), c.want, c.finish, c.calls)
					}
				})
			}
		})
	}
	t.Run("ends the turn", func(t *testing.T) {
		s := s.At(t)
		before := s.Model.Stats().ClosedEarly
		params := e2e.UserSays("say:One END and silence; hang")
		params.Stop.OfString = openai.String("END")
		got, err := s.Complete(params)
		if err != nil || got.Content != "One " {
			t.Fatalf("%+v, %v", got, err)
		}
		if err := s.Model.WaitClosed(e2e.Context(t), before+1); err != nil {
			t.Error(err)
		}
	})
}

// TestMaxTokens: at the limit an answer ends with the finish reason length, and the turn ends too.
func TestMaxTokens(t *testing.T) {
	s := e2e.NewSite(t, "")
	const text = "The quick brown fox jumps over the lazy dog, and then it sleeps."
	for name, c := range map[string]struct {
		limit  int64
		want   string
		finish string
	}{
		"cut":       {4, "The quick brown fox", "length"},
		"one token": {1, "The", "length"},
		"enough":    {1000, text, "stop"},
	} {
		for _, param := range []string{"max_tokens", "max_completion_tokens"} {
			t.Run(name+"/"+param, func(t *testing.T) {
				bothWays(t, s.At(t), func(t *testing.T, ask func(openai.ChatCompletionNewParams) (e2e.Answer, error)) {
					params := e2e.UserSays("chunk=2; verbatim:" + text)
					if param == "max_tokens" {
						params.MaxTokens = openai.Int(c.limit)
					} else {
						params.MaxCompletionTokens = openai.Int(c.limit)
					}
					got, err := ask(params)
					must.OK(t, err)
					if got.Content != c.want || got.Finish != c.finish {
						t.Errorf("got %q, %s; want %q, %s", got.Content, got.Finish, c.want, c.finish)
					}
					if c.finish == "length" && got.Usage.CompletionTokens < c.limit {
						t.Errorf("%d tokens in the usage", got.Usage.CompletionTokens)
					}
				})
			})
		}
	}
}
