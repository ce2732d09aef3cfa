package chat

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/planbackend"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// TestServiceTier: the tier of any model reaches the provider, and is in the answer.
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
				completion, err := s.NewCompletion(params)
				must.OK(t, err)
				checkAsked("chat")
				if got := string(completion.ServiceTier); got != want.told {
					t.Errorf("the completion has the tier %q, want %q", got, want.told)
				}
				streamed, err := s.NewStreaming(params)
				must.OK(t, err)
				if got := string(streamed.ServiceTier); got != want.told {
					t.Errorf("the stream has the tier %q, want %q", got, want.told)
				}
				response, err := client.Responses.New(e2e.Context(t), responses.ResponseNewParams{
					Model: model, ServiceTier: responses.ResponseNewParamsServiceTier(tier),
					Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("say:ok")},
				})
				must.OK(t, err)
				checkAsked("responses")
				if got := string(response.ServiceTier); got != want.told {
					t.Errorf("the response has the tier %q, want %q", got, want.told)
				}
			})
		}
	}
}

// TestForcedEffort: a request's effort replaces that of an alias, or if forced, the client is told.
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
			response, text := s.Call(http.MethodPost, path, body, nil)
			if response.StatusCode != http.StatusOK {
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

// TestCacheWrites: Codex's count of tokens written to the cache is in answers and accounts.
func TestCacheWrites(t *testing.T) {
	s := e2e.NewSite(t, "")
	client := s.Client()
	completion, err := s.NewCompletion(e2e.UserSays("usage:1000,300,20,5,600; say:ok"))
	must.OK(t, err)
	if d := completion.Usage.PromptTokensDetails; d.CachedTokens != 300 || d.CacheWriteTokens != 600 {
		t.Errorf("chat: %s", d.RawJSON())
	}
	response, err := client.Responses.New(e2e.Context(t), responses.ResponseNewParams{
		Model: "gpt-5", Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("usage:1000,300,20,5,66; say:ok")},
	})
	must.OK(t, err)
	if d := response.Usage.InputTokensDetails; d.CachedTokens != 300 || d.CacheWriteTokens != 66 {
		t.Errorf("responses: %s", d.RawJSON())
	}
	if _, usage := s.Get("/v1/usage"); gjson.Get(usage, "usage.cache_write_tokens").Int() != 666 {
		t.Error(usage)
	}
}

// TestFingerprint: each completion and chunk has the fingerprint of its model and of Codex.
func TestFingerprint(t *testing.T) {
	s := e2e.NewSite(t, "model alias gpt-5")
	fingerprints := map[string]string{}
	for _, model := range []string{"gpt-5", "alias", "gpt-5.5"} {
		params := e2e.UserSays("say:ok")
		params.Model = model
		completion, err := s.NewCompletion(params)
		must.OK(t, err)
		fingerprint := gjson.Get(completion.RawJSON(), "system_fingerprint").Str
		_, chunks := s.Post(e2e.ChatBody("say:ok", e2e.Fields{"model": model, "stream": true}), nil)
		if n := strings.Count(chunks, `"system_fingerprint":"`+fingerprint+`"`); n == 0 || n != strings.Count(chunks, `"chat.completion.chunk"`) ||
			len(fingerprint) != len("fp_0123456789") || !strings.HasPrefix(fingerprint, "fp_") {
			t.Errorf("%s: %q, streamed %s", model, fingerprint, chunks)
		}
		fingerprints[model] = fingerprint
	}
	if fingerprints["gpt-5"] != fingerprints["alias"] || fingerprints["gpt-5"] == fingerprints["gpt-5.5"] {
		t.Errorf("%v", fingerprints)
	}
}

// TestRateLimitHeaders: answers tell the windows of the plan as percentages, not as numbers of requests.
func TestRateLimitHeaders(t *testing.T) {
	e2e.WithLogin(t)
	s := e2e.NewSite(t, "")
	s.Login.SetUse(planbackend.Use{Primary: 40, Secondary: 13})
	for _, stream := range []bool{false, true} {
		var header http.Header
		e2e.WaitFor(t, "the use to be told", func() bool {
			response, body := s.Post(e2e.ChatBody("say:ok", map[string]any{"stream": stream}), nil)
			if header = response.Header; response.StatusCode != http.StatusOK {
				t.Fatal(body)
			}
			return header.Get("X-Codex-Primary-Used-Percent") == "40"
		})
		if header.Get("X-Codex-Active-Limit") != "codex" || header.Get("X-Codex-Primary-Window-Minutes") != "300" || header.Get("X-Codex-Secondary-Used-Percent") != "13" ||
			header.Get("X-Codex-Secondary-Window-Minutes") != "10080" || header.Get("X-Codex-Primary-Reset-At") == "" {
			t.Errorf("streamed %t: %v", stream, header)
		}
		for name := range header {
			if strings.HasPrefix(name, "X-Ratelimit") {
				t.Error("there is", name)
			}
		}
	}
}

// TestInputTokens counts requests without asking the model.
func TestInputTokens(t *testing.T) {
	s := e2e.NewSite(t, "")
	count := func(request e2e.Fields) int {
		t.Helper()
		answer, text := s.Call(http.MethodPost, "/v1/responses/input_tokens", request, nil)
		var body struct {
			Object string `json:"object"`
			Tokens int    `json:"input_tokens"`
		}
		if err := json.Unmarshal([]byte(text), &body); err != nil || answer.StatusCode != http.StatusOK || body.Object != "response.input_tokens" {
			t.Fatal(answer.Status, text, err)
		}
		return body.Tokens
	}
	r := s.Respond(e2e.Asks("say:one two three", nil), nil)
	asked := len(s.Model.Requests())
	text := count(e2e.Asks("one two three", nil))
	if text != 3+4 {
		t.Errorf("a text: %d", text)
	}
	if n := count(e2e.Asks("one two three", e2e.Fields{"instructions": "Be brief.", "tools": []e2e.Fields{e2e.FunctionTool("f")}})); n < text+20 {
		t.Errorf("with a tool: %d", n)
	}
	if n := count(e2e.Asks("one two three", e2e.Fields{"previous_response_id": r.ID})); n <= text+3 {
		t.Errorf("with a response before: %d", n)
	}
	if more := len(s.Model.Requests()) - asked; more != 0 {
		t.Errorf("the model was asked %d times", more)
	}
	for _, path := range []string{"input_tokens", "compact"} {
		answer, text := s.Call(http.MethodPost, "/v1/responses/"+path, `{"model":"m","input":7}`, nil)
		if answer.StatusCode != http.StatusBadRequest || !strings.Contains(text, `"message"`) {
			t.Errorf("%s: %s %s", path, answer.Status, text)
		}
	}
}

// TestWarmup: over a WebSocket, what Codex sends when a thread starts is used by its first turn,
// whatever the settings of the request: that goes on from it with the messages alone. It is not
// with a response format, which Codex knows with the turn only.
func TestWarmup(t *testing.T) {
	e2e.OverOne(t, scriptedmodel.WebSocket)
	s := e2e.NewSite(t, "")
	config := s.Home + "/config.toml"                                                          // ends with the provider
	e2e.WriteFile(t, config, e2e.ReadFile(t, config)+"websocket_connect_timeout_ms = 60000\n") // else a busy machine makes Codex connect once more
	s.Load(s.Caddyfile(s.Pool("env AGAIN 1")))
	s.WaitSuccessor(1)
	instructions := e2e.Fields{"role": "system", "content": "You are a bird."}
	history := []any{instructions, e2e.Fields{"role": "user", "content": "What?"}, e2e.Fields{"role": "assistant", "content": "This."}, e2e.Fields{"role": "user", "content": "say:Hello"}}
	for _, model := range []string{"gpt-5", s.CatalogueModel(t)} {
		for _, effort := range append([]string{""}, codexrpc.Efforts...) {
			body := e2e.Fields{"model": model, "messages": history, "tools": []any{e2e.Tool("localSearch")}}
			if effort != "" {
				body["reasoning_effort"] = effort
			}
			checkWarmup(s, body, effort, true)
		}
	}
	checkWarmup(s, e2e.Fields{"model": "gpt-5.5", "messages": history, "verbosity": "high", "service_tier": "priority", "reasoning_effort": "low"}, "low", true)
	checkWarmup(s, e2e.Fields{"model": "gpt-5", "messages": history, "response_format": e2e.Fields{"type": "json_schema", "json_schema": e2e.Fields{
		"name": "x", "strict": true, "schema": e2e.Fields{"type": "object", "properties": e2e.Fields{}, "required": []string{}, "additionalProperties": false},
	}}}, "", false)
}

// checkWarmup checks that there is one warm-up and one request, and whether that used the warm-up.
func checkWarmup(s *e2e.Site, body e2e.Fields, effort string, used bool) {
	s.T.Helper()
	before := s.Model.Stats()
	if response, text := s.Post(e2e.EncodeJSON(body), nil); response.StatusCode != http.StatusOK {
		s.T.Errorf("effort %q: %s", effort, text)
		return
	}
	now := s.Model.Stats()
	if now.Warmups-before.Warmups != 1 || now.Requests-before.Requests != 1 || now.Sockets-before.Sockets != 1 {
		s.T.Errorf("effort %q: %+v, before %+v", effort, now, before)
	}
	warmups := s.Model.Warmups()
	warm := warmups[len(warmups)-1]
	request, _ := s.Model.Last()
	if got := request.PreviousResponseID != ""; got != used {
		s.T.Errorf("effort %q: the request has %d new items and goes on from %q", effort, request.NewItems, request.PreviousResponseID)
	}
	model := body["model"]
	if effort != request.Reasoning.Effort && (model == "gpt-5" || effort != "") {
		s.T.Errorf("%s: the model got the effort %q, want %q", model, request.Reasoning.Effort, effort)
	}
	if used && (warm.Reasoning != request.Reasoning || len(warm.Input)+request.NewItems != len(request.Input)) {
		s.T.Errorf("%s: the warm-up has %+v and %d items, the request %+v and %d new of %d items",
			model, warm.Reasoning, len(warm.Input), request.Reasoning, request.NewItems, len(request.Input))
	}
	if used && model == "gpt-5" && request.NewItems != 3 {
		s.T.Errorf("the request has %d new items", request.NewItems)
	}
}
