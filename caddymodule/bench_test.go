package caddymodule

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/gateway"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// BenchmarkRequest measures what this package does for a request with a turn, from the route
// to the log line, beside what the gateway does:
//
//	go test -run '^$' -bench Request -benchmem ./caddymodule
func BenchmarkRequest(b *testing.B) {
	h := &Handler{hosts: new(hosts)}
	turns := observer{turnLogger: zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(io.Discard), zap.InfoLevel))}
	route, _ := apiRouteOf("/v1/chat/completions")
	route.serve = func(h *Handler, w http.ResponseWriter, r *http.Request, _ []string) {
		record := [1]gateway.Record{{
			Time: time.Now(), Duration: 1234567 * time.Nanosecond, FirstOutput: 1234567 * time.Nanosecond, Route: gateway.RouteChat,
			RequestID: r.Header.Get(requestIDHeader), User: h.accountOf(r), Model: "gpt-5", CodexModel: "gpt-5", Mode: turn.ModeJSON, Stream: true,
			Status: http.StatusOK, Usage: codexrpc.Usage{InputTokens: 10, OutputTokens: 5, TotalTokens: 15}, Finish: turn.FinishStop, Thread: "new",
		}}
		defer turns.AnswerBegan(true)()
		_ = withoutWriteDeadlines(w, r)
		turns.TurnsEnded(r.Context(), record[:])
	}
	server := &caddyhttp.Server{Listen: []string{":8080"}}
	bare := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", nil)
	bare.Host = "127.0.0.1:8080"
	bare.Header.Set("Content-Type", "application/json")
	b.ReportAllocs()
	for b.Loop() {
		w := httptest.NewRecorder()
		bare.Header.Del(requestIDHeader)
		r := caddyhttp.PrepareRequest(bare, caddy.NewReplacer(), w, server)
		reqCtx := new(requestContext)
		setRequestID(w, r, &reqCtx.ids)
		route.prepare(w, r, reqCtx)
		h.serve(route, w, r, reqCtx)
	}
}
