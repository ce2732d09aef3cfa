// Package caddycodex lets the whole module be built into Caddy by its root
// path: xcaddy build --with github.com/caddy-codex/caddy-codex
package caddycodex

import _ "github.com/caddy-codex/caddy-codex/caddymodule" // registers the modules
