package caddymodule

import (
	"net/http"
	"slices"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/gateway"
	"github.com/caddy-codex/caddy-codex/internal/openai"
)

// route is one entry of the API.
type route struct {
	name    string   // in the metrics; empty: not counted
	methods []string // the first is the canonical one
	open    bool     // needs no key, under whatever name of a host: probes carry none
	serve   func(*Handler, http.ResponseWriter, *http.Request)
}

// modelPrefix precedes a model's id, which may hold slashes.
const modelPrefix = "/v1/models/"

var (
	readMethods  = []string{http.MethodGet, http.MethodHead}
	writeMethods = []string{http.MethodPost}

	routes = map[string]route{
		"/v1/chat/completions": {name: "chat", methods: writeMethods, serve: of((*gateway.Gateway).Chat)},
		"/v1/responses":        {name: "responses", methods: writeMethods, serve: of((*gateway.Gateway).Responses)},
		"/v1/models":           {name: "models", methods: readMethods, serve: of((*gateway.Gateway).Models)},
		"/v1/usage":            {name: "usage", methods: readMethods, serve: (*Handler).serveUsage},
		"/v1/usage/raw":        {name: "usage", methods: readMethods, serve: (*Handler).serveRawUsage},
		"/healthz":             {methods: readMethods, open: true, serve: of((*gateway.Gateway).Health)},
		"/readyz":              {methods: readMethods, open: true, serve: of((*gateway.Gateway).Ready)},
	}
	modelRoute = route{name: "models", methods: readMethods, serve: func(h *Handler, w http.ResponseWriter, r *http.Request) {
		h.gateway.Model(w, r, strings.TrimPrefix(r.URL.Path, modelPrefix))
	}}
	unknownRoute = route{name: "unknown", serve: func(_ *Handler, w http.ResponseWriter, r *http.Request) {
		refuse(w, r, openai.NotFound(r.Method, r.URL.Path))
	}}
)

// responsePrefix precedes a response's id.
const responsePrefix = "/v1/responses/"

// responseRoutes are the routes of one response, by what follows its id.
var responseRoutes = map[string]struct {
	methods []string
	serve   func(*gateway.Gateway, http.ResponseWriter, *http.Request, string)
}{
	"":             {[]string{http.MethodGet, http.MethodHead, http.MethodDelete}, (*gateway.Gateway).Response},
	"/input_items": {readMethods, (*gateway.Gateway).InputItems},
	"/cancel":      {writeMethods, (*gateway.Gateway).CancelResponse},
}

// responseRouteOf finds the route of one response.
func responseRouteOf(path string) (route, bool) {
	rest, ok := strings.CutPrefix(path, responsePrefix)
	if !ok || rest == "" {
		return route{}, false
	}
	id, what := rest, ""
	if slash := strings.IndexByte(rest, '/'); slash >= 0 {
		id, what = rest[:slash], rest[slash:]
	}
	found, ok := responseRoutes[what]
	if !ok || id == "" {
		return route{}, false
	}
	return route{name: "responses", methods: found.methods, serve: func(h *Handler, w http.ResponseWriter, r *http.Request) {
		found.serve(h.gateway, w, r, id)
	}}, true
}

// of is the handler of a route that the gateway serves.
func of(serve func(*gateway.Gateway, http.ResponseWriter, *http.Request)) func(*Handler, http.ResponseWriter, *http.Request) {
	return func(h *Handler, w http.ResponseWriter, r *http.Request) { serve(h.gateway, w, r) }
}

// routeOf finds the route for a path. False: the path is not the API's.
func routeOf(path string) (route, bool) {
	if r, ok := routes[path]; ok {
		return r, true
	}
	if len(path) > len(modelPrefix) && strings.HasPrefix(path, modelPrefix) {
		return modelRoute, true
	}
	if r, ok := responseRouteOf(path); ok {
		return r, true
	}
	return unknownRoute, strings.HasPrefix(path, "/v1/")
}

// serve checks the origin, the key, the host and the method, in this order and before the
// body is read, and hands the request over. What becomes of it is counted here.
func (h *Handler) serve(rt route, w http.ResponseWriter, r *http.Request) {
	if rt.name != "" {
		var t *tally
		r, t = begin(r)
		defer func() { countRequest(rt.name, t) }()
	}
	if h.cors.forged(r) {
		refuse(w, r, openai.OriginNotAllowed(r.Header.Get("Origin")))
		return
	}
	if !rt.open && !h.keys.allows(r) {
		refuse(w, r, openai.Unauthorized())
		return
	}
	if !rt.open && userOf(r) == "" && !h.hosts.allow(h, r) {
		refuse(w, r, openai.HostNotAllowed(r.Host))
		return
	}
	if len(rt.methods) > 0 && !slices.Contains(rt.methods, r.Method) {
		refuse(w, r, openai.MethodNotAllowed(r.Method, r.URL.Path, strings.Join(rt.methods, ", ")))
		return
	}
	rt.serve(h, w, r)
}

// refuse answers with an error of the adapter's own, whatever has come of the
// body. A client that does not take it has gone; there is nobody left to tell.
func refuse(w http.ResponseWriter, r *http.Request, e *openai.Error) {
	if r.ContentLength != 0 {
		gateway.LimitDiscard(w)
	}
	note(r, e)
	_ = e.Respond(w)
}
