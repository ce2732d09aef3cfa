package caddymodule

import (
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-codex/caddy-codex/internal/gateway"
)

// ownDeadlines keeps Caddy from setting a deadline before each write and each flush of a
// request's answer, which costs more than a small chunk. A stream bounds its writes itself,
// by less than Caddy's default; a stricter setting of the operator's stays.
func ownDeadlines(r *http.Request) {
	_, w := caddyhttp.IdleTimeoutsFromContext(r.Context())
	if w == nil {
		return
	}
	if d := w.Deadline; d.Timeout >= gateway.WriteTimeout && d.MinRate == 0 && d.HardDeadline.IsZero() {
		w.Ctrl = http.NewResponseController(noDeadlines{})
	}
}

// noDeadlines is a response writer that has no deadlines. It is not written to.
type noDeadlines struct{ http.ResponseWriter }
