package gateway

import (
	"net/http"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/quota"
)

// keyOf returns the key of a request, or nil if it has none with limits.
func (g *Gateway) keyOf(r *http.Request) (*quota.Key, *apierror.Error) {
	if g.opts.Key == nil {
		return nil, nil
	}
	return g.opts.Key(r)
}

// identify finds the key of a request. It may have changed since the client was
// authenticated: a WebSocket lives long.
func (g *Gateway) identify(x *exchange) (apiErr *apierror.Error) {
	x.key, apiErr = g.keyOf(x.r)
	return apiErr
}
