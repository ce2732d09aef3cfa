package chat

import (
	"testing"

	"github.com/openai/openai-go/v3"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// TestAnswerLimits: the text, however cut, ends before the first stop sequence or at the limit of
// tokens, and the turn ends, too.
func TestAnswerLimits(t *testing.T) {
	type params = openai.ChatCompletionNewParams
	stop := func(at string) func(*params) { return func(p *params) { p.Stop.OfStringArray = []string{at} } }
	old := func(limit int64) func(*params) { return func(p *params) { p.MaxTokens = openai.Int(limit) } }
	limit := func(limit int64) func(*params) {
		return func(p *params) { p.MaxCompletionTokens = openai.Int(limit) }
	}
	const fox = "The quick brown fox jumps over the lazy dog, and then it sleeps."
	s := e2e.NewSite(t, "")
	for name, c := range map[string]struct {
		said   string
		set    func(*params)
		want   string
		finish string
		calls  int
	}{
		"in the middle":      {"One END two", stop("END"), "One ", "stop", 0},
		"the tag of a block": {"I look. <use_tool><name>search</name></use_tool>", stop("<use_tool>"), "I look. ", "stop", 0},
		"after a block": {
			"<use_tool><name>search</name><query>x</query></use_tool> and STOP more", stop("STOP"), "", "tool_calls", 1,
		},
		"cut":              {fox, old(4), "The quick brown fox", "length", 0},
		"cut, new name":    {fox, limit(4), "The quick brown fox", "length", 0},
		"one token":        {fox, limit(1), "The", "length", 0},
		"enough":           {fox, old(1000), fox, "stop", 0},
		"enough, new name": {fox, limit(1000), fox, "stop", 0},
	} {
		t.Run(name, func(t *testing.T) {
			for _, chunk := range []string{"chunk=1; ", "chunk=3; ", "chunk=all; "} {
				bothWays(t, s.At(t), func(t *testing.T, ask func(params) (e2e.Answer, error)) {
					p := e2e.UserSays(chunk + "verbatim:" + c.said)
					p.Tools = []openai.ChatCompletionToolUnionParam{e2e.SearchTool("search")}
					c.set(&p)
					got, err := ask(p)
					must.OK(t, err)
					if got.Content != c.want || got.Finish != c.finish || len(got.Calls) != c.calls {
						t.Errorf("got %q, %s, %d calls; want %q, %s, %d", got.Content, got.Finish, len(got.Calls), c.want, c.finish, c.calls)
					}
					if least := max(p.MaxTokens.Value, p.MaxCompletionTokens.Value); c.finish == "length" && got.Usage.CompletionTokens < least {
						t.Errorf("%d tokens in the usage", got.Usage.CompletionTokens)
					}
				})
			}
		})
	}
	t.Run("ends the turn", func(t *testing.T) {
		s := s.At(t)
		before := s.Model.Stats().ClosedEarly
		p := e2e.UserSays("say:One END and silence; hang")
		p.Stop.OfString = openai.String("END")
		got, err := s.Complete(p)
		if err != nil || got.Content != "One " {
			t.Fatalf("%+v, %v", got, err)
		}
		must.OK(t, s.Model.WaitClosed(e2e.Context(t), before+1))
	})
}
