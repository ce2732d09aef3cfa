package caddymodule

import (
	"encoding/json"
	"net/http"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-codex/caddy-codex/internal/usage"
)

// book keeps the usage since this Caddy started, over reloads.
var book = usage.New()

// userOf is who makes a request, by whatever has authenticated it: a key of
// ours or one of Caddy's own handlers. Empty: nobody has said.
func userOf(r *http.Request) string {
	repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return ""
	}
	user, _ := repl.GetString("http.auth.user.id")
	return user
}

// serveUsage answers with the caller's account.
func serveUsage(w http.ResponseWriter, r *http.Request) { writeJSON(w, book.Account(userOf(r))) }

// serveRawUsage answers with the caller's last turns.
func serveRawUsage(w http.ResponseWriter, r *http.Request) { writeJSON(w, book.Raw(userOf(r))) }

// writeJSON writes a body. A client that does not take it has gone.
func writeJSON(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(body)
}
