package caddymodule

import (
	"context"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/caddyauth"
)

// KeysProvider is [KeysHandler] for Caddy's handler authentication, where another provider may let a request pass
// instead. That handler answers every refusal with an empty 401, even if a limit is reached.
type KeysProvider struct{ KeysHandler }

// CaddyModule returns the Caddy module information.
func (KeysProvider) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.authentication.providers.codex_keys", New: func() caddy.Module { return new(KeysProvider) }}
}

// Authenticate implements [caddyauth.Authenticator].
func (p *KeysProvider) Authenticate(w http.ResponseWriter, r *http.Request) (caddyauth.User, bool, error) {
	a, apiErr := p.admit(r)
	if apiErr != nil {
		if presentedKey(r) != "" { // otherwise, the request may be for another provider
			p.report(r, apiErr)
		}
		w.Header().Set("WWW-Authenticate", "Bearer")
		return caddyauth.User{}, false, nil
	}
	context.AfterFunc(r.Context(), a.release) // Caddy does not say when the request ends
	return caddyauth.User{ID: userOf(r)}, true, nil
}
