package chat

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/planbackend"
)

// TestWindow checks that every API tells the context window of a model, also of an alias and of the default
// model, and refuses a prompt that cannot fit, which never reaches the plan.
func TestWindow(t *testing.T) {
	e2e.WithLogin(t)
	s := e2e.NewUnstarted(t)
	must.OK(t, s.Plan.AddModel("gpt-7", "gpt-6-sol", map[string]any{"priority": 0, "context_window": 20_000}))
	options := "ollama on\nmodel mine gpt-7\n"
	s.Serve(options)
	admin := s.WithAdmin(s.Caddyfile(options))
	s.WaitReady()
	e2e.WaitFor(t, "the list of the back end", func() bool { return slices.Contains(s.Models(), "gpt-7") })

	anthropic := http.Header{"Anthropic-Version": {e2e.AnthropicVersion}}
	for path, header := range map[string]http.Header{"context_length": nil, "max_model_len": nil, "max_input_tokens": anthropic} {
		_, list := s.Call(http.MethodGet, "/v1/models?limit=1000", nil, header)
		ids := []string{"gpt-7", "mine", "default"}
		if header != nil {
			ids = append(ids, "claude-opus-5-5")
		}
		for _, id := range ids {
			listed := gjson.Get(list, `data.#(id=="`+id+`").`+path).Int()
			if _, one := s.Call(http.MethodGet, "/v1/models/"+id, nil, header); gjson.Get(one, path).Int() != 20_000 || listed != 20_000 && !strings.HasPrefix(id, "claude") {
				t.Errorf("%s of %s: %d in the list, %s", path, id, listed, one)
			}
		}
	}
	if _, shown := s.Call(http.MethodPost, "/api/show", e2e.Fields{"model": "mine"}, nil); gjson.Get(shown, `model_info.codex\.context_length`).Int() != 20_000 {
		t.Errorf("Ollama's API shows %s", shown)
	}
	if windows := admin.Status().AppServers[0].Windows; windows["gpt-7"] != 20_000 || windows["gpt-6-sol"] != 272_000 {
		t.Errorf("the status has %v", windows)
	}
	client := s.Client()
	if model, err := client.Models.Get(t.Context(), "gpt-7"); err != nil || model.JSON.ExtraFields["context_length"].Raw() != "20000" {
		t.Errorf("the SDK reads %+v, %v", model, err)
	}

	s.Served("say:ok")
	asked := func() int { return s.Model.Stats().Requests + s.Plan.Count(planbackend.Responses) }
	before := asked()
	long, fits := strings.Repeat("word ", 40_000), strings.Repeat("word ", 15_000)+"say:ok"
	const numbers = " tokens > 20000 maximum. This model's maximum context length is 20000 tokens."
	bodies := map[string]func(model, prompt string) e2e.Fields{
		"/v1/chat/completions": func(model, prompt string) e2e.Fields {
			return e2e.Fields{"model": model, "messages": []any{e2e.UserMessage(prompt)}}
		},
		"/v1/responses":          func(model, prompt string) e2e.Fields { return e2e.Fields{"model": model, "input": prompt} },
		"/v1/messages?beta=true": func(model, prompt string) e2e.Fields { return e2e.MessageBody(prompt, e2e.Fields{"model": model}) },
		"/v1/responses?streaming": func(model, prompt string) e2e.Fields {
			return e2e.Fields{"model": model, "input": prompt, "stream": true}
		},
		"/api/chat": func(model, prompt string) e2e.Fields {
			return e2e.Fields{"model": model, "messages": []any{e2e.UserMessage(prompt)}, "stream": false}
		},
	}
	for path, body := range bodies {
		for _, model := range []string{"gpt-7", "mine", "default"} {
			response, text := s.Call(http.MethodPost, path, body(model, long), nil)
			message := gjson.Get(text, "error.message").Str
			want, code := "40", "context_length_exceeded"
			switch path {
			case "/v1/messages?beta=true":
				want, code = "prompt is too long: 40", ""
			case "/api/chat":
				message, code = gjson.Get(text, "error").Str, ""
			}
			if response.StatusCode != http.StatusBadRequest || !strings.HasPrefix(message, want) || !strings.Contains(message, numbers) || gjson.Get(text, "error.code").Str != code {
				t.Errorf("%s with %s: %s %s", path, model, response.Status, text)
			}
		}
	}
	if response, text := s.PostMessage(e2e.MessageBody(long, nil), nil); response.StatusCode != http.StatusBadRequest {
		t.Errorf("Claude's model: %s %s", response.Status, text)
	}
	if response, text := s.Call(http.MethodPost, "/v1/messages/count_tokens", e2e.MessageBody(long, nil), nil); response.StatusCode != http.StatusOK {
		t.Errorf("a count: %s %s", response.Status, text)
	}
	if n := asked() - before; n != 0 {
		t.Errorf("%d requests have reached the plan", n)
	}
	for path, body := range bodies {
		if response, text := s.Call(http.MethodPost, path, body("gpt-7", fits), nil); response.StatusCode != http.StatusOK {
			t.Errorf("%s: %s %s", path, response.Status, text)
		}
	}
}
