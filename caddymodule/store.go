package caddymodule

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-codex/caddy-codex/caddymodule/storemodules"
	"github.com/caddy-codex/caddy-codex/internal/objects"
)

// runningResponses are the responses that are being made. A reload keeps them.
var runningResponses = objects.NewRunning()

// parseStore reads the type of a store. The module of this type reads the rest.
func (h *Handler) parseStore(d *caddyfile.Dispenser) error {
	if !d.NextArg() {
		return d.ArgErr()
	}
	name := d.Val()
	if _, err := caddy.GetModule(storemodules.Namespace + "." + name); err != nil {
		var names []string
		for _, known := range caddy.GetModules(storemodules.Namespace) {
			names = append(names, known.ID.Name())
		}
		return d.Errf("store: %q must be one of %s", name, strings.Join(names, ", "))
	}
	store, err := caddyfile.UnmarshalModule(d, storemodules.Namespace+"."+name)
	if err != nil {
		return err
	}
	h.StoreRaw = caddyconfig.JSONModuleObject(store, "type", name, nil)
	return nil
}

// completeStore sets the type of the store to memory if its JSON has no type.
func (h *Handler) completeStore() error {
	fields := make(map[string]json.RawMessage)
	if len(h.StoreRaw) > 0 {
		if err := json.Unmarshal(h.StoreRaw, &fields); err != nil {
			return err
		}
	}
	if fields["type"] == nil {
		fields["type"] = json.RawMessage(`"memory"`)
		h.StoreRaw = caddyconfig.JSON(fields, nil)
	}
	return nil
}

func (h *Handler) loadStore(ctx caddy.Context) error {
	loaded, err := ctx.LoadModule(h, "StoreRaw")
	if err != nil {
		return err
	}
	module, isOurs := loaded.(storemodules.Module)
	if !isOurs {
		return fmt.Errorf("the module %s is no store of this server", loaded.(caddy.Module).CaddyModule().ID)
	}
	h.storeModule = module
	return nil
}
