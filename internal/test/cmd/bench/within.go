package main

import (
	"encoding/json"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// floorHandler is the floor as a handler of Caddy's HTTP server. What it costs beyond the
// floor is Caddy's own share.
type floorHandler struct{}

var _ caddyhttp.MiddlewareHandler = floorHandler{}

// CaddyModule returns the Caddy module information.
func (floorHandler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.floor", New: func() caddy.Module { return new(floorHandler) }}
}

// ServeHTTP passes a request to the handlers of the process.
func (floorHandler) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	http.DefaultServeMux.ServeHTTP(w, r)
	return nil
}

// runWithin serves the floor on an address, within Caddy.
func runWithin(addr string) error {
	if err := serveFloor(); err != nil {
		return err
	}
	caddy.RegisterModule(floorHandler{})
	config, err := json.Marshal(map[string]any{
		"admin":   map[string]any{"disabled": true, "config": map[string]any{"persist": false}},
		"logging": map[string]any{"logs": map[string]any{"default": map[string]any{"level": "ERROR"}}},
		"apps": map[string]any{"tls": map[string]any{"disable_storage_clean": true}, "http": map[string]any{"servers": map[string]any{"floor": map[string]any{
			"listen":          []string{addr},
			"automatic_https": map[string]any{"disable": true},
			"routes":          []any{map[string]any{"handle": []any{map[string]any{"handler": "floor"}}}},
		}}}},
	})
	if err != nil {
		return err
	}
	if err := caddy.Load(config, true); err != nil {
		return err
	}
	select {} // until it is killed
}
