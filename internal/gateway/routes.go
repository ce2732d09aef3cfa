package gateway

import (
	"net/http"

	"github.com/caddy-codex/caddy-codex/internal/api"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/chat"
	"github.com/caddy-codex/caddy-codex/internal/images"
	"github.com/caddy-codex/caddy-codex/internal/messages"
	"github.com/caddy-codex/caddy-codex/internal/ollama"
	"github.com/caddy-codex/caddy-codex/internal/responses"
)

// APIs are the APIs of clients. A client that no IsClient recognizes counts as a client of the first API.
var APIs = []*api.API{&chat.API, &responses.API, &messages.API, &images.API, &ollama.API}

// ClientAPI returns the API whose client has sent a request to a route that several APIs have.
func ClientAPI(r *http.Request) *api.API {
	for _, a := range APIs {
		if a.IsClient != nil && a.IsClient(r) {
			return a
		}
	}
	return APIs[0]
}

// Route is a route of an API.
type Route struct {
	api.Route
	API *api.API

	// stored has the functions that answer requests about stored objects, by the method of the request.
	stored map[string]plain
}

// Routes returns the routes of all APIs.
func Routes() []*Route {
	all := storedRoutes()
	for _, a := range APIs {
		for _, r := range a.Routes {
			all = append(all, &Route{Route: r, API: a})
		}
	}
	return all
}

// Find returns the route whose Path is path, such as "/v1/responses/*", or nil.
func Find(path string) *Route {
	for _, rt := range Routes() {
		if rt.Path == path {
			return rt
		}
	}
	return nil
}

// Serve answers a request to a route. args are the segments of the request's path that stand for the *
// in the route's Path.
func (g *Gateway) Serve(rt *Route, w http.ResponseWriter, r *http.Request, args ...string) {
	switch {
	case rt.stored != nil:
		g.serveStored(rt, w, r, args)
	case rt.Static != nil:
		serveStatic(w, *rt.Static)
	case rt.Count != nil:
		g.serveTurnless(w, r, args, func(c *plainCall) ([]byte, *apierror.Error) { return c.countTurn(rt) })
	case rt.Turn != nil:
		g.serve(rt, w, r)
	default:
		g.serveTurnless(w, r, args, func(c *plainCall) ([]byte, *apierror.Error) { return rt.Plain(c) })
	}
}

func serveStatic(w http.ResponseWriter, text string) {
	if text != "" {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	}
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write([]byte(text)) // a client that has gone needs no answer
}

// HasAlias implements [api.Server].
func (g *Gateway) HasAlias(model string) bool { return g.alias(model) != nil }
