package caddymodule

import (
	"strings"

	"go.uber.org/zap"

	"github.com/caddy-codex/caddy-codex/internal/gateway"
)

// turnLogger is the part of the handler's logger that turns are logged with:
// http.handlers.codex.turns.
const turnLogger = "turns"

// maxLogged bounds a model's name and an error's code in the log, in bytes: the
// one is the client's, the other may be a provider's.
const maxLogged = 200

// logged is a text of somebody else's as it is logged.
func logged(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxLogged)], "")
}

// logTurn writes a turn's one line. It has nothing that was said, and no key.
func logTurn(log *zap.Logger, r gateway.Record) {
	entry := log.Check(zap.InfoLevel, "turn")
	if entry == nil {
		return
	}
	fields := []zap.Field{
		zap.String("request_id", r.RequestID),
		zap.String("user", r.User),
		zap.String("route", string(r.Route)),
		zap.Int("choice", r.Choice),
		zap.String("model", logged(r.Model)),
		zap.String("output_mode", string(r.Mode)),
		zap.Bool("stream", r.Stream),
		zap.Int("status", r.Status),
		zap.Float64("duration", r.Duration.Seconds()),
		zap.Int64("input_tokens", r.Usage.InputTokens),
		zap.Int64("cached_input_tokens", r.Usage.CachedInputTokens),
		zap.Int64("output_tokens", r.Usage.OutputTokens),
		zap.Int64("reasoning_output_tokens", r.Usage.ReasoningOutputTokens),
		zap.Int("tool_calls", r.Tools.Calls),
		zap.Bool("tool_calls_truncated", r.Tools.Truncated),
	}
	if r.Code != "" {
		fields = append(fields, zap.String("code", logged(string(r.Code))))
	}
	if r.FirstOutput > 0 {
		fields = append(fields, zap.Float64("first_output", r.FirstOutput.Seconds()))
	}
	entry.Write(fields...)
}
