package caddymodule

import (
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
)

// Of the log lines about wrong keys, the first wrongKeyLines within wrongKeyWindow are
// written, and then every wrongKeyRest-th: whoever tries keys must not fill the disk.
const (
	wrongKeyWindow = time.Minute
	wrongKeyLines  = 20
	wrongKeyRest   = 1000
)

// sampled returns a logger for wrong keys.
func sampled(log *zap.Logger) *zap.Logger {
	return log.WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core {
		return zapcore.NewSamplerWithOptions(core, wrongKeyWindow, wrongKeyLines, wrongKeyRest)
	}))
}

// logWrongKey logs a request that was refused for its key, without the key.
func (h *Handler) logWrongKey(r *http.Request, outcome *requestOutcome) {
	if outcome.failure == nil || outcome.failure.Code != apierror.CodeInvalidAPIKey {
		return
	}
	entry := h.wrongKeys.Check(zap.WarnLevel, "the API key is missing or wrong")
	if entry == nil {
		return
	}
	address, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
	entry.Write(
		zap.String("request_id", r.Header.Get(requestIDHeader)),
		zap.String("client_ip", address),
		zap.Bool("missing", presentedKey(r) == ""),
		zap.String("method", logged(r.Method)),
		zap.String("path", logged(r.URL.Path)),
		zap.String("user_agent", logged(r.UserAgent())),
	)
}
