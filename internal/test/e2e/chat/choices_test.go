package chat

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/openai/openai-go/v3"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// eachItsOwn makes every turn with the prompt "own" say something different.
func eachItsOwn(s *e2e.Site) {
	var turns atomic.Int32
	s.Model.On(func(req scriptedmodel.Request) (scriptedmodel.Script, bool) {
		if req.UserText() != "own" {
			return scriptedmodel.Script{}, false
		}
		n := turns.Add(1)
		script := scriptedmodel.Script{Chunk: 4}
		if n%2 == 0 {
			script.Output = append(script.Output, scriptedmodel.Call{Name: "search", Arguments: fmt.Sprintf(`{"query":"turn %d"}`, n)})
		} else {
			script.Output = append(script.Output, scriptedmodel.Say(strings.Repeat(fmt.Sprintf("turn %d ünï. ", n), 30)))
		}
		return script, true
	})
}

// TestChoices: n concurrent turns are complete, do not mix, and their usage is added up.
func TestChoices(t *testing.T) {
	s := e2e.NewSite(t, "")
	eachItsOwn(s)
	const n = 8
	params := e2e.UserSays("own")
	params.N = openai.Int(n)
	params.Tools = []openai.ChatCompletionToolUnionParam{e2e.SearchTool("search")}
	client := s.Client()
	t.Run("whole", func(t *testing.T) {
		completion, err := s.NewCompletion(params)
		must.OK(t, err)
		checkChoices(t, completion.Choices, n)
		checkSum(t, completion.Usage, n)
	})
	t.Run("streamed", func(t *testing.T) {
		params.StreamOptions.IncludeUsage = openai.Bool(true)
		stream := client.Chat.Completions.NewStreaming(e2e.Context(t), params)
		defer stream.Close()
		var acc openai.ChatCompletionAccumulator
		roles, finishes, usages := make(map[int64]int), make(map[int64]int), 0
		for stream.Next() {
			chunk := stream.Current()
			if !acc.AddChunk(chunk) {
				t.Error("the SDK's accumulator refuses", chunk.RawJSON())
			}
			if len(chunk.Choices) == 0 {
				usages++
				continue
			}
			if len(chunk.Choices) != 1 {
				t.Error("more than one choice in", chunk.RawJSON())
			}
			if chunk.Choices[0].Delta.Role != "" {
				roles[chunk.Choices[0].Index]++
			}
			if chunk.Choices[0].FinishReason != "" {
				finishes[chunk.Choices[0].Index]++
			}
		}
		must.OK(t, stream.Err())
		for i := range int64(n) {
			if roles[i] != 1 || finishes[i] != 1 {
				t.Errorf("choice %d: %d roles, %d finish reasons", i, roles[i], finishes[i])
			}
		}
		if usages != 1 {
			t.Errorf("%d chunks with the usage", usages)
		}
		checkChoices(t, acc.Choices, n)
		checkSum(t, acc.Usage, n)
	})
}

// checkChoices checks that each choice is a different turn.
func checkChoices(t *testing.T, choices []openai.ChatCompletionChoice, n int) {
	t.Helper()
	if len(choices) != n {
		t.Fatalf("%d choices, want %d", len(choices), n)
	}
	seen, ids := make(map[string]bool), make(map[string]bool)
	for i, c := range choices {
		if int(c.Index) != i {
			t.Errorf("choice %d has the index %d", i, c.Index)
		}
		said := c.Message.Content
		want := "stop"
		if len(c.Message.ToolCalls) > 0 {
			call := c.Message.ToolCalls[0]
			said, want = call.Function.Arguments, "tool_calls"
			if ids[call.ID] || !strings.HasPrefix(call.ID, fmt.Sprintf("tool_%d_0", i)) {
				t.Errorf("choice %d has a call %s", i, call.ID)
			}
			ids[call.ID] = true
		} else if part := said[:strings.Index(said, ".")+2]; said != strings.Repeat(part, 30) {
			t.Errorf("choice %d mixes turns: %q", i, said)
		}
		if seen[said] || said == "" || c.FinishReason != want {
			t.Errorf("choice %d: %q, %s", i, said, c.FinishReason)
		}
		seen[said] = true
	}
}

func checkSum(t *testing.T, got openai.CompletionUsage, n int) {
	t.Helper()
	one := scriptedmodel.DefaultUsage
	e2e.CheckUsage(t, got, scriptedmodel.Usage{Input: n * one.Input, Cached: n * one.Cached, Output: n * one.Output, Reasoning: n * one.Reasoning})
}

// TestChoiceFails checks that a failed choice fails the request and interrupts the others.
func TestChoiceFails(t *testing.T) {
	s := e2e.NewSite(t, "")
	var mu sync.Mutex
	turns := make(map[string]int) // by key: over a WebSocket Codex asks again
	s.Model.On(func(req scriptedmodel.Request) (scriptedmodel.Script, bool) {
		mu.Lock()
		defer mu.Unlock()
		if turns[req.PromptCacheKey] == 0 {
			turns[req.PromptCacheKey] = len(turns) + 1
		}
		script := scriptedmodel.Script{Output: []scriptedmodel.Output{scriptedmodel.Say("some text")}, End: scriptedmodel.Hang{}}
		if turns[req.PromptCacheKey]%3 == 0 {
			script = scriptedmodel.Script{End: scriptedmodel.Failed{Code: "rate_limit_exceeded", Message: "Slow down, try again in 3s."}}
		}
		return script, true
	})
	for i, stream := range []bool{false, true} {
		response, body := s.Post(e2e.ChatBody("x", map[string]any{"n": 3, "stream": stream}), nil)
		if !strings.Contains(body, "rate_limit_exceeded") {
			t.Errorf("stream %t: %d %s", stream, response.StatusCode, body)
		}
		if !stream && (response.StatusCode != http.StatusTooManyRequests || response.Header.Get("Retry-After") == "") {
			t.Errorf("%d %s", response.StatusCode, body)
		}
		if stream && response.StatusCode == http.StatusOK && (strings.Count(body, `{"error":`) != 1 || !strings.HasSuffix(body, "data: [DONE]\n\n")) {
			t.Errorf("the stream ends in %q", body)
		}
		if err := s.Model.WaitClosed(e2e.Context(t), 2*(i+1)); err != nil {
			t.Error("the other turns go on:", err)
		}
	}
	s.WaitOpen(0)
}

// TestAliases: an alias is listed, Codex gets its model, and answers have the alias.
func TestAliases(t *testing.T) {
	s := e2e.NewSite(t, "model fast gpt-5 low\nmodel gpt-5-mini\nmodel deep gpt-5 high\nreasoning off")
	client := s.Client()
	page, err := client.Models.List(e2e.Context(t))
	must.OK(t, err)
	var ids []string
	for _, m := range page.Data {
		ids = append(ids, m.ID)
	}
	for _, id := range []string{"fast", "gpt-5-mini", "deep"} {
		if !slices.Contains(ids, id) {
			t.Errorf("%s is not in %v", id, ids)
		}
		if status, body := s.Get("/v1/models/" + id); status != http.StatusOK || !strings.Contains(body, `"id":"`+id+`"`) {
			t.Errorf("%s: %d %s", id, status, body)
		}
	}
	for _, c := range []struct{ model, asked, want, effort string }{
		{"fast", "", "gpt-5", "low"},
		{"fast", "high", "gpt-5", "high"},
		{"deep", "", "gpt-5", "high"},
	} {
		more := map[string]any{"model": c.model}
		if c.asked != "" {
			more["reasoning_effort"] = c.asked
		}
		_, body := s.Post(e2e.ChatBody("reason:Hm.; say:Hello", more), nil)
		if !strings.Contains(body, `"model":"`+c.model+`"`) || strings.Contains(body, "reasoning_content") {
			t.Errorf("%+v: %s", c, body)
		}
		last, _ := s.Model.Last()
		if last.Model != c.want || last.Reasoning.Effort != c.effort {
			t.Errorf("%+v: the model was asked for %s with the effort %q", c, last.Model, last.Reasoning.Effort)
		}
	}
}

// TestNothingCrosses: no client of concurrent requests gets a byte of another's answer.
func TestNothingCrosses(t *testing.T) {
	s := e2e.NewSite(t, "max_concurrent 300")
	const pairs = 36
	var wg sync.WaitGroup
	start := make(chan struct{})
	inFlight := make(chan struct{}, 12) // 24 turns at once keep a small machine busy
	for i := range pairs {
		wg.Go(func() {
			<-start
			inFlight <- struct{}{}
			defer func() { <-inFlight }()
			var pair sync.WaitGroup
			pair.Go(func() { askText(s, i) })
			pair.Go(func() { askCalls(s, i) })
			pair.Wait()
		})
	}
	close(start)
	wg.Wait()
}

func askText(s *e2e.Site, i int) {
	own := strings.Repeat(fmt.Sprintf("<%d> ünï ", i), 20) + "."
	ask := s.Complete
	if i%2 == 0 {
		ask = s.Stream
	}
	got, err := ask(e2e.UserSays("chunk=5; verbatim:" + own))
	if err != nil || got.Content != own || len(got.Calls) != 0 {
		s.T.Errorf("caller %d: %+v, %v", i, got, err)
	}
}

func askCalls(s *e2e.Site, i int) {
	params := e2e.UserSays(fmt.Sprintf(`tool:2 search_%d {"query":"%d of %%d"}`, i, i))
	params.Tools = []openai.ChatCompletionToolUnionParam{e2e.SearchTool(fmt.Sprintf("search_%d", i))}
	ask := s.Stream
	if i%2 == 0 {
		ask = s.Complete
	}
	got, err := ask(params)
	if err != nil || len(got.Calls) != 2 || got.Content != "" {
		s.T.Errorf("caller %d: %+v, %v", i, got, err)
		return
	}
	for n, call := range got.Calls {
		if want := fmt.Sprintf(`{"query":"%d of %d"}`, i, n+1); call.Function.Arguments != want {
			s.T.Errorf("caller %d got the arguments %s", i, call.Function.Arguments)
		}
	}
}
