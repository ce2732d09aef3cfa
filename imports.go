// Package caddycodex registers all modules of this repository, so that Caddy can be built with the
// root path: xcaddy build --with github.com/caddy-codex/caddy-codex
package caddycodex

import _ "github.com/caddy-codex/caddy-codex/caddymodule" // registers the modules
