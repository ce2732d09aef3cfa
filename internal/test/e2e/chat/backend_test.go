package chat

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// TestServiceTier: the tier reaches the provider, with models of the catalogue and with
// others, and the answer has it.
func TestServiceTier(t *testing.T) {
	s := e2e.NewSite(t, "")
	for tier, want := range map[string]struct{ asked, told string }{
		"auto": {"", "default"}, "default": {"", "default"}, "flex": {"flex", "flex"},
		"priority": {"priority", "priority"}, "fast": {"priority", "priority"}, "scale": {"scale", "scale"},
	} {
		for _, model := range []string{"gpt-5", "gpt-5.5", "a-model-of-mine"} {
			t.Run(model+"/"+tier, func(t *testing.T) {
				s := s.At(t)
				checkAsked := func(route string) {
					t.Helper()
					request, _ := s.Model.Last()
					if asked := gjson.GetBytes(request.Body, "service_tier").Str; asked != want.asked {
						t.Errorf("%s: the provider was asked for %q, want %q", route, asked, want.asked)
					}
				}
				params := e2e.UserSays("say:ok")
				params.Model, params.ServiceTier = model, openai.ChatCompletionNewParamsServiceTier(tier)
				client := s.Client()
				completion, err := client.Chat.Completions.New(e2e.Context(t), params)
				if err != nil {
					t.Fatal(err)
				}
				checkAsked("chat")
				if got := string(completion.ServiceTier); got != want.told {
					t.Errorf("the completion has the tier %q, want %q", got, want.told)
				}
				stream := client.Chat.Completions.NewStreaming(e2e.Context(t), params)
				for stream.Next() {
					if got := string(stream.Current().ServiceTier); got != want.told {
						t.Errorf("a chunk has the tier %q, want %q", got, want.told)
					}
				}
				if stream.Err() != nil {
					t.Fatal(stream.Err())
				}
				response, err := client.Responses.New(e2e.Context(t), responses.ResponseNewParams{
					Model: model, ServiceTier: responses.ResponseNewParamsServiceTier(tier),
					Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("say:ok")},
				})
				if err != nil {
					t.Fatal(err)
				}
				checkAsked("responses")
				if got := string(response.ServiceTier); got != want.told {
					t.Errorf("the response has the tier %q, want %q", got, want.told)
				}
			})
		}
	}
}

// TestForcedEffort: the effort of an alias gives way to that of a request unless it is
// forced, and then the client is told.
func TestForcedEffort(t *testing.T) {
	s := e2e.NewSite(t, "model kind gpt-5 low\nmodel strict gpt-5 low force")
	for _, c := range []struct {
		model, asked, effort string
		ignored              bool
	}{
		{"kind", "", "low", false},
		{"kind", "medium", "medium", false},
		{"strict", "", "low", false},
		{"strict", "low", "low", false},
		{"strict", "medium", "low", true},
	} {
		for param, body := range map[string]e2e.Fields{
			"reasoning_effort": {"messages": []any{e2e.Says("user", "say:ok")}},
			"reasoning.effort": {"input": "say:ok"},
		} {
			path := "/v1/responses"
			switch {
			case param == "reasoning_effort":
				path = "/v1/chat/completions"
				if c.asked != "" {
					body[param] = c.asked
				}
			case c.asked != "":
				body["reasoning"] = e2e.Fields{"effort": c.asked}
			}
			body["model"] = c.model
			response := s.Do(http.MethodPost, path, strings.NewReader(e2e.AsJSON(t, body)), nil)
			if text := s.Read(response); response.StatusCode != http.StatusOK {
				t.Fatal(text)
			}
			want := ""
			if c.ignored {
				want = param
			}
			request, _ := s.Model.Last()
			if got := response.Header.Get("X-Codex-Ignored-Params"); request.Reasoning.Effort != c.effort || got != want {
				t.Errorf("%s %+v: effort %q, ignored %q", path, c, request.Reasoning.Effort, got)
			}
		}
	}
}

// TestCacheWrites: Codex's count of tokens that were written to the provider's cache is
// in the answers and in the accounts.
func TestCacheWrites(t *testing.T) {
	s := e2e.NewSite(t, "")
	client := s.Client()
	completion, err := client.Chat.Completions.New(e2e.Context(t), e2e.UserSays("usage:1000,300,20,5,600; say:ok"))
	if err != nil {
		t.Fatal(err)
	}
	if d := completion.Usage.PromptTokensDetails; d.CachedTokens != 300 || d.CacheWriteTokens != 600 {
		t.Errorf("chat: %s", d.RawJSON())
	}
	response, err := client.Responses.New(e2e.Context(t), responses.ResponseNewParams{
		Model: "gpt-5", Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("usage:1000,300,20,5,66; say:ok")},
	})
	if err != nil {
		t.Fatal(err)
	}
	if d := response.Usage.InputTokensDetails; d.CachedTokens != 300 || d.CacheWriteTokens != 66 {
		t.Errorf("responses: %s", d.RawJSON())
	}
	if _, usage := s.Get("/v1/usage"); gjson.Get(usage, "usage.cache_write_tokens").Int() != 666 {
		t.Error(usage)
	}
}

// TestFingerprint: a completion has the fingerprint of its model and of Codex, in one
// body and in each chunk.
func TestFingerprint(t *testing.T) {
	s := e2e.NewSite(t, "model alias gpt-5")
	client := s.Client()
	fingerprints := map[string]string{}
	for _, model := range []string{"gpt-5", "alias", "gpt-5.5"} {
		params := e2e.UserSays("say:ok")
		params.Model = model
		completion, err := client.Chat.Completions.New(e2e.Context(t), params)
		if err != nil {
			t.Fatal(err)
		}
		fingerprint := gjson.Get(completion.RawJSON(), "system_fingerprint").Str
		stream := client.Chat.Completions.NewStreaming(e2e.Context(t), params)
		for stream.Next() {
			if got := gjson.Get(stream.Current().RawJSON(), "system_fingerprint").Str; got != fingerprint {
				t.Errorf("%s: a chunk has %q, the body %q", model, got, fingerprint)
			}
		}
		if stream.Err() != nil || len(fingerprint) != len("fp_0123456789") || !strings.HasPrefix(fingerprint, "fp_") {
			t.Errorf("%s: %q, %v", model, fingerprint, stream.Err())
		}
		fingerprints[model] = fingerprint
	}
	if fingerprints["gpt-5"] != fingerprints["alias"] || fingerprints["gpt-5"] == fingerprints["gpt-5.5"] {
		t.Errorf("%v", fingerprints)
	}
}

// TestRateLimitHeaders: once the provider has reported windows of the plan, answers have
// OpenAI's headers for the window that is used most.
func TestRateLimitHeaders(t *testing.T) {
	e2e.OverOne(t, scriptedmodel.HTTP) // over a WebSocket they are no headers
	s := e2e.NewSite(t, "")
	ask := func(prompt string, stream bool) http.Header {
		response, body := s.Post(e2e.ChatBody(prompt, map[string]any{"stream": stream}), nil)
		if response.StatusCode != http.StatusOK {
			t.Fatal(body)
		}
		return response.Header
	}
	for name := range ask("say:ok", false) {
		if strings.HasPrefix(name, "X-Ratelimit") {
			t.Error("before any report there is", name)
		}
	}
	report := func(primary, secondary string, resetIn time.Duration) {
		t.Helper()
		reset := strconv.FormatInt(time.Now().Add(resetIn).Unix(), 10)
		defer s.Model.On(func(scriptedmodel.Request) (scriptedmodel.Script, bool) {
			return scriptedmodel.Script{Output: []scriptedmodel.Output{scriptedmodel.Say("ok")}, Header: map[string]string{
				"x-codex-primary-used-percent": primary, "x-codex-primary-window-minutes": "300", "x-codex-primary-reset-at": reset,
				"x-codex-secondary-used-percent": secondary, "x-codex-secondary-window-minutes": "10080", "x-codex-secondary-reset-at": reset,
			}}, true
		})()
		ask("the limits are", false)
	}
	check := func(remaining string) {
		t.Helper()
		for _, stream := range []bool{false, true} {
			header := ask("say:ok", stream)
			reset, err := time.ParseDuration(header.Get("X-Ratelimit-Reset-Requests"))
			if header.Get("X-Ratelimit-Limit-Requests") != "100" || header.Get("X-Ratelimit-Remaining-Requests") != remaining ||
				err != nil || reset > 2*time.Hour || reset < 2*time.Hour-e2e.Deadline {
				t.Errorf("streamed %t: %v", stream, header)
			}
			if tokens := header.Get("X-Ratelimit-Limit-Tokens"); tokens != "" {
				t.Errorf("a limit of %s tokens", tokens)
			}
		}
	}
	report("40", "13", 2*time.Hour)
	check("60")
	report("40", "100", 2*time.Hour)
	check("0") // which refuses nothing
	report("99", "98", -time.Hour)
	if header := ask("say:ok", false); header.Get("X-Ratelimit-Remaining-Requests") != "" {
		t.Errorf("windows that are over: %v", header)
	}
}
