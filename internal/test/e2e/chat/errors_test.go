package chat

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

// TestUpstreamErrors checks every failure of the model with the official client, with
// and without streaming.
func TestUpstreamErrors(t *testing.T) { e2e.OverBoth(t, testUpstreamErrors) }

func testUpstreamErrors(t *testing.T) {
	s := e2e.NewSite(t, "")
	for _, c := range []struct {
		prompt  string
		status  int
		code    string
		message string // part of Codex's message
		retry   string // x-should-retry
		after   bool   // there is a Retry-After
	}{
		{"http:400", 400, "", "", "", false},
		{"http:401", 503, "codex_unauthorized", "run `caddy codex login`", "false", false},
		{"http:403", 403, "codex_forbidden", "403", "false", false},
		{"http:404", 404, "model_not_found", "404", "", false},
		{"http:429", 429, "rate_limit_exceeded", "", "", true},
		{"http:500", 500, "", "", "", false},
		{"http:503", 503, "", "503", "", true},
		{"fail:rate_limit_exceeded Rate limit reached. Please try again in 11ms.", 429, "rate_limit_exceeded", "Rate limit reached", "", true},
		{"fail:insufficient_quota", 429, "insufficient_quota", "", "false", false},
		{"limit:3600", 429, "insufficient_quota", "hit your usage limit", "false", true},
		{"fail:context_length_exceeded", 400, "context_length_exceeded", "room", "", false},
	} {
		t.Run(c.prompt, func(t *testing.T) {
			bothWays(t, s.At(t), func(t *testing.T, ask func(openai.ChatCompletionNewParams) (e2e.Answer, error)) {
				begin := time.Now()
				_, err := ask(e2e.UserSays(c.prompt))
				var apiErr *openai.Error
				if !errors.As(err, &apiErr) {
					if err != nil && time.Since(begin) > 2*time.Second && strings.Contains(err.Error(), "while streaming") && strings.Contains(err.Error(), c.code) && strings.Contains(err.Error(), c.message) {
						return // on a busy machine it came within the stream
					}
					t.Fatalf("got %v", err)
				}
				if apiErr.StatusCode != c.status || (c.code != "" && apiErr.Code != c.code) || !strings.Contains(apiErr.Message, c.message) || apiErr.Message == "" {
					t.Errorf("status %d, type %s, code %s, message %q", apiErr.StatusCode, apiErr.Type, apiErr.Code, apiErr.Message)
				}
				header := apiErr.Response.Header
				if header.Get("X-Should-Retry") != c.retry || (header.Get("Retry-After") != "") != c.after {
					t.Errorf("x-should-retry %q, retry-after %q", header.Get("X-Should-Retry"), header.Get("Retry-After"))
				}
				if header.Get("X-Request-Id") == "" {
					t.Error("no request id")
				}
			})
		})
	}
}

// TestSpentPlan checks that the client gets the time at which the plan resets, to the
// second, and that no SDK retries before.
func TestSpentPlan(t *testing.T) {
	s := e2e.NewSite(t, "")
	for _, more := range []map[string]any{nil, {"stream": true}, {"n": 2}} {
		begin := time.Now()
		response, body := s.Post(e2e.ChatBody("limit:3600 plus", more), nil)
		if e2e.IsLate(response, begin) && strings.Contains(body, "insufficient_quota") {
			continue
		}
		seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
		if response.StatusCode != http.StatusTooManyRequests || !strings.Contains(body, "insufficient_quota") ||
			seconds < 3600-int(e2e.Deadline.Seconds()) || seconds > 3600 || response.Header.Get("X-Should-Retry") != "false" {
			t.Errorf("%v: %s, %v %s", more, response.Status, response.Header, body)
		}
	}
}

// TestCutAfterCall checks that an answer ends soon, with its call, when the model's response
// breaks off after it. Codex does not say so before the call is answered.
func TestCutAfterCall(t *testing.T) { e2e.OverBoth(t, testCutAfterCall) }

func testCutAfterCall(t *testing.T) {
	s := e2e.NewSite(t, "")
	tools := []any{e2e.Fields{"type": "function", "function": e2e.Fields{"name": "find"}}}
	for _, c := range []struct {
		end, want string
		stream    bool
	}{
		{"incomplete:max_output_tokens", `"finish_reason":"tool_calls"`, true},
		{"say:Hm; incomplete:content_filter", `"finish_reason":"tool_calls"`, false},
		{"say:Half of it; cutoff", `"finish_reason":"tool_calls"`, true},
		{"fail:context_length_exceeded too long", `"finish_reason":"tool_calls"`, false},
	} {
		t.Run(c.end, func(t *testing.T) {
			t.Parallel() // two wait some seconds
			_, body := s.At(t).Post(e2e.ChatBody("tool:1 find {}; "+c.end, e2e.Fields{"tools": tools, "stream": c.stream}), nil)
			if !strings.Contains(body, c.want) {
				t.Errorf("want %s in %s", c.want, body)
			}
		})
	}
}
