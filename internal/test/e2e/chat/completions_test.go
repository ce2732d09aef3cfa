package chat

import (
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

// TestCompletions uses the legacy route with the official SDK, streaming and not.
func TestCompletions(t *testing.T) {
	s := e2e.NewSite(t, "")
	client := s.Client()
	ask := func(t *testing.T, stream bool, params openai.CompletionNewParams) (texts []string, finish string, total int64) {
		t.Helper()
		texts = make([]string, max(1, int(params.N.Value)))
		add := func(c openai.Completion) {
			for _, choice := range c.Choices {
				texts[choice.Index] += choice.Text
				finish += string(choice.FinishReason)
			}
			total += c.Usage.TotalTokens
		}
		if !stream {
			c, err := client.Completions.New(e2e.Context(t), params)
			if err != nil {
				t.Fatal(err)
			}
			add(*c)
			return texts, finish, total
		}
		params.StreamOptions.IncludeUsage = openai.Bool(true)
		events := client.Completions.NewStreaming(e2e.Context(t), params)
		defer events.Close()
		for events.Next() {
			add(events.Current())
		}
		if err := events.Err(); err != nil {
			t.Fatal(err)
		}
		return texts, finish, total
	}
	for name, stream := range map[string]bool{"whole": false, "streamed": true} {
		t.Run(name, func(t *testing.T) {
			params := openai.CompletionNewParams{Model: "gpt-5", Prompt: openai.CompletionNewParamsPromptUnion{OfString: openai.String("usage:10,0,5,0; reason:Hm.; say:upon a time STOP here")}}
			params.Stop.OfString = openai.String("STOP")
			texts, finish, _ := ask(t, stream, params)
			if texts[0] != "upon a time " || finish != "stop" {
				t.Errorf("%q %s", texts, finish)
			}
			block := "<use_tool>\n<name>f</name>\n<a>b</a>\n</use_tool>"
			params = openai.CompletionNewParams{Model: "gpt-5", N: openai.Int(2), Echo: openai.Bool(true), Prompt: openai.CompletionNewParamsPromptUnion{OfArrayOfStrings: []string{"verbatim:" + block}}}
			texts, finish, total := ask(t, stream, params)
			if want := "verbatim:" + block + block; texts[0] != want || texts[1] != want || finish != "stopstop" || total == 0 {
				t.Errorf("%q %s %d", texts, finish, total)
			}
			params = openai.CompletionNewParams{Model: "gpt-5", MaxTokens: openai.Int(3), Prompt: openai.CompletionNewParamsPromptUnion{OfString: openai.String("say:one two three four five six")}}
			if texts, finish, _ = ask(t, stream, params); texts[0] != "one two three" || finish != "length" {
				t.Errorf("%q %s", texts, finish)
			}
		})
	}
	answer := s.Do(http.MethodPost, "/v1/completions", strings.NewReader(`{"model":"gpt-5","prompt":"a","suffix":"b"}`), nil)
	if body := s.Read(answer); answer.StatusCode != http.StatusBadRequest || !strings.Contains(body, `"param":"suffix"`) {
		t.Errorf("%s %s", answer.Status, body)
	}
	answer = s.Do(http.MethodPost, "/v1/completions", strings.NewReader(`{"model":"gpt-5","prompt":"fail:context_length_exceeded"}`), nil)
	if body := s.Read(answer); answer.StatusCode != http.StatusBadRequest || !strings.Contains(body, `"param":"prompt"`) {
		t.Errorf("%s %s", answer.Status, body)
	}
}
