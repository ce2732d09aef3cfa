package caddymodule

import (
	"bytes"
	"context"
	"encoding/json"
	"net/netip"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// warnIfExposed warns if everybody who reaches the handler's server may use the login of Codex.
func (h *Handler) warnIfExposed(ctx caddy.Context) {
	if addresses := h.exposedAddresses(ctx); len(addresses) > 0 {
		ctx.Slogger().Warn("everybody who reaches this address may use Codex with your login: set api_key or api_keys_file, or `bind 127.0.0.1` in the site",
			"listen", addresses)
	}
}

// exposedAddresses returns the addresses of the server that ctx belongs to, if everybody who
// reaches them may use the handler. Otherwise it returns nil.
func (h *Handler) exposedAddresses(ctx context.Context) []string {
	server, _ := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if server == nil || len(h.keys) > 0 || h.keyFile != nil {
		return nil
	}
	if routes, err := json.Marshal(server.Routes); err != nil || !isExposed(server.Listen, routes) {
		return nil
	}
	return server.Listen
}

// isExposed reports whether other machines reach a server, and no route authenticates them.
func isExposed(addresses []string, routes []byte) bool {
	for _, marker := range []string{`"authentication"`, "http.auth.user.id"} {
		if bytes.Contains(routes, []byte(marker)) {
			return false
		}
	}
	return slices.ContainsFunc(addresses, func(address string) bool {
		parsed, err := caddy.ParseNetworkAddress(address)
		if err != nil || parsed.IsUnixNetwork() || parsed.IsFdNetwork() || parsed.Host == "localhost" {
			return false
		}
		ip, err := netip.ParseAddr(parsed.Host)
		return err != nil || !ip.IsLoopback()
	})
}
