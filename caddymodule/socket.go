package caddymodule

import (
	"net/http"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
)

// responsesSocket is the route of WebSockets at /v1/responses. Its requests are counted one
// by one.
var responsesSocket = route{serve: func(h *Handler, w http.ResponseWriter, r *http.Request) {
	if h.forgedHandshake(r) {
		refuse(w, r, apierror.OriginNotAllowed(r.Header.Get("Origin")))
		return
	}
	h.gateway.ResponsesSocket(w, r, func(r *http.Request, serve func(*http.Request)) {
		r, outcome := withOutcome(r)
		defer func() { countRequest("responses", outcome) }()
		serve(r)
	})
}}

// isHandshake reports whether a request wants a WebSocket.
func isHandshake(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
}

// forgedHandshake reports whether a handshake comes from a page that may not use the API.
// Browsers send no preflight before it, so it is held to what a POST without one is.
func (h *Handler) forgedHandshake(r *http.Request) bool {
	post := r.Clone(r.Context())
	post.Method = http.MethodPost
	post.Header.Del("Content-Type")
	return h.cors.forged(post)
}
