package caddymodule

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/internal/usage"
)

// TestPlaceholders checks what other handlers read of a request: before the end of its turns, with
// several choices, and where there is nothing to say.
func TestPlaceholders(t *testing.T) {
	full := usage.Record{
		Model: "fast" + strings.Repeat("!", 500), Route: "messages", Thread: "continued", Key: "laptop",
		Finish: turn.FinishToolCalls, FirstOutput: 1500 * time.Microsecond,
		Usage: codexrpc.Usage{InputTokens: 100, CachedInputTokens: 20, OutputTokens: 7}, Tools: turn.Report{Calls: 2},
	}
	second := full
	second.Thread, second.Finish, second.FirstOutput = "new", turn.FinishStop, time.Second
	nothing := map[string]any{
		"model": nil, "api": nil, "thread": nil, "finish_reason": nil, "key": nil, "login": nil, "ttft_ms": nil,
		"input_tokens": nil, "cached_tokens": nil, "output_tokens": nil, "tool_calls": nil,
	}
	of := func(more map[string]any) map[string]any {
		all := maps.Clone(nothing)
		maps.Copy(all, more)
		return all
	}
	for name, test := range map[string]struct {
		turns []usage.Record
		want  map[string]any
	}{
		"before the end": {nil, nothing},
		"a failed turn": {[]usage.Record{{Model: "gpt-5", Route: "chat"}}, of(map[string]any{
			"model": "gpt-5", "api": "chat", "input_tokens": int64(0), "cached_tokens": int64(0), "output_tokens": int64(0), "tool_calls": int64(0),
		})},
		"two choices": {[]usage.Record{full, second}, of(map[string]any{
			"model": "fast" + strings.Repeat("!", maxLogged-len("fast")), "api": "messages", "thread": "continued", "key": "laptop",
			"finish_reason": "tool_calls", "ttft_ms": 1.5,
			"input_tokens": int64(200), "cached_tokens": int64(40), "output_tokens": int64(14), "tool_calls": int64(4),
		})},
	} {
		r, repl := prepared(http.MethodPost, "/v1/messages")
		route, _ := apiRouteOf("/v1/messages")
		route.prepare(httptest.NewRecorder(), r, new(requestContext))
		if len(test.turns) > 0 {
			observer{turnLogger: zap.NewNop()}.TurnsEnded(r.Context(), test.turns)
		}
		for key, want := range test.want {
			if got, known := repl.Get("http.codex." + key); got != want || !known {
				t.Errorf("%s: %s is %v, known: %t, want %v", name, key, got, known, want)
			}
		}
		if len(test.want) != len(placeholders) {
			t.Errorf("%s: %d placeholders, want %d", name, len(test.want), len(placeholders))
		}
		if value, known := repl.Get("http.codex.nothing"); known {
			t.Errorf("%s: a placeholder that does not exist is %v", name, value)
		}
	}
}

// TestPlaceholdersOfAnother checks that the turns of a background response, whose context is not
// that of the request, are not those of the request that began it.
func TestPlaceholdersOfAnother(t *testing.T) {
	r, repl := prepared(http.MethodPost, "/v1/responses")
	route, _ := apiRouteOf("/v1/responses")
	route.prepare(httptest.NewRecorder(), r, new(requestContext))
	observer{turnLogger: zap.NewNop()}.TurnsEnded(context.Background(), []usage.Record{{Model: "gpt-5"}})
	if model, _ := repl.Get("http.codex.model"); model != nil {
		t.Errorf("the model is %v", model)
	}
}
