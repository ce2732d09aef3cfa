// Package caddycodex registers all Caddy modules of this repository. The package is in the root, so
// that this command builds Caddy with the modules:
//
//	xcaddy build --with github.com/caddy-codex/caddy-codex
package caddycodex

import _ "github.com/caddy-codex/caddy-codex/caddymodule" // registers the modules
