// Package storemodules has the Caddy modules of the engines that store responses. It opens their
// stores, which the configurations share.
package storemodules

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-codex/caddy-codex/internal/option"
)

func init() {
	caddy.RegisterModule(Off{})
	caddy.RegisterModule(Memory{})
	caddy.RegisterModule(Disk{})
	caddy.RegisterModule(Redis{})
}

// parseBlock reads the block of a store into store.
func parseBlock(d *caddyfile.Dispenser, store any) error {
	name := d.Val()
	if d.NextArg() {
		return d.Errf("store %s takes no %q here; limits are in a block: { size 64MiB }", name, d.Val())
	}
	return option.ParseBlock(d, store, nil)
}
