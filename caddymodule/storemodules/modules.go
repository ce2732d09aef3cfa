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

// Namespace is the namespace of the modules. The last part of a module's id is its name after the
// option `store` in a Caddyfile, and its `type` in JSON.
const Namespace = "http.codex.stores"

// Module is the Caddy module of an engine.
type Module interface {
	caddy.Module
	// key identifies the settings. Modules with the same id and key share a store, over reloads.
	key() string
	// open opens o's store, if any, without waiting: this configuration may never be used.
	open(o *OpenStore)
	// start is called when a configuration begins to use o; an error refuses the configuration.
	start(o *OpenStore) error
}

// parseBlock reads the block of a store into store.
func parseBlock(d *caddyfile.Dispenser, store any) error {
	name := d.Val()
	if d.NextArg() {
		return d.Errf("store %s takes no %q here; limits are in a block: { size 64MiB }", name, d.Val())
	}
	return option.ParseBlock(d, store, nil)
}
