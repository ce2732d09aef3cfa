// Package caddymodule is the Caddy side of caddy-codex: the handler
// `http.handlers.codex` with its Caddyfile directive `codex`, and the app
// `codex` that keeps the app-servers. What the handler says to its clients
// and to Codex lives elsewhere.
package caddymodule
