package caddymodule

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-codex/caddy-codex/internal/usage"
)

// maxRealm bounds the name of a realm, in bytes.
const maxRealm = 100

// accountOf returns the name under which usage, responses and conversations of the user of
// a request are kept: that of the user and, after the last @, the realm. So users of two
// sites who have one name are two users.
func (h *Handler) accountOf(r *http.Request) string {
	realm := h.realm
	if realm == "" {
		realm = h.hosts.site(h, r)
	}
	user := userOf(r)
	if realm == "" { // not a request from Caddy
		return user
	}
	return usage.UserName(user + "@" + realm)
}

// parseRealm reads the name of the realm.
func (h *Handler) parseRealm(d *caddyfile.Dispenser) error {
	if !d.AllArgs(&h.Realm) {
		return d.ArgErr()
	}
	return checkRealm(h.Realm)
}

// checkRealm refuses names with which two users could get the same account, and names that
// no log should have.
func checkRealm(realm string) error {
	if realm == "" || len(realm) > maxRealm || strings.ContainsFunc(realm, func(c rune) bool { return c <= ' ' || c == '@' || c == 0x7f || c == 0xfffd }) {
		return fmt.Errorf("realm: %.100q is no name of 1 to %d bytes without spaces and @", realm, maxRealm)
	}
	return nil
}

// resolveRealm replaces the placeholders of the option.
func (h *Handler) resolveRealm(repl *caddy.Replacer) error {
	if h.Realm == "" {
		return nil
	}
	realm, err := repl.ReplaceOrErr(h.Realm, true, true)
	if err != nil {
		return fmt.Errorf("realm: %w", err)
	}
	h.realm = realm
	return checkRealm(realm)
}

// site names the site of a request: by the first name of the host matcher that has led it
// to the handler, the outermost one if there are several, with the port if it is not that
// of HTTP or HTTPS; or else by the address of the server. It returns "" for a request that
// does not come from Caddy.
func (h *hosts) site(handler *Handler, r *http.Request) string {
	server, ok := r.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if !ok || server == nil {
		return ""
	}
	h.find(handler, server)
	address := ""
	if len(server.Listen) > 0 {
		address = server.Listen[0]
	}
	for _, m := range slices.Backward(h.sites) {
		if len(*m) > 0 && m.Match(r) {
			return realmName((*m)[0] + unusualPort(address))
		}
	}
	return realmName(address)
}

// unusualPort returns the port of the address of a server with a colon, or "" for those of
// HTTP and HTTPS.
func unusualPort(address string) string {
	at, err := caddy.ParseNetworkAddress(address)
	if err != nil || at.StartPort == 0 || at.StartPort == caddyhttp.DefaultHTTPPort || at.StartPort == caddyhttp.DefaultHTTPSPort {
		return ""
	}
	return fmt.Sprintf(":%d", at.StartPort)
}

// realmName returns the name of a site as the name of a realm.
func realmName(site string) string {
	return strings.ToLower(strings.ReplaceAll(site, "@", "_"))
}
