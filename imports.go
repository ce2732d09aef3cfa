// Package caddycodex registers all Caddy modules of this repository. It stands in the root, so that
// this command builds Caddy with them: xcaddy build --with github.com/caddy-codex/caddy-codex
package caddycodex

import _ "github.com/caddy-codex/caddy-codex/caddymodule" // registers the modules
