package caddymodule

import (
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/gateway"
	"github.com/caddy-codex/caddy-codex/internal/page"
	"github.com/caddy-codex/caddy-codex/internal/reqbody"
	"github.com/caddy-codex/caddy-codex/internal/status"
)

// route is one entry of the API.
type route struct {
	name    string   // in the metrics; empty: requests are not counted
	methods []string // the first one is the canonical method; nil: any
	open    bool     // needs neither a key nor an allowed host: probes have none
	serve   func(*Handler, http.ResponseWriter, *http.Request)
	socket  bool // WebSockets are served as well
}

const (
	// modelPrefix precedes a model's id, which may contain slashes.
	modelPrefix = "/v1/models/"
	// responsePrefix precedes a response's id.
	responsePrefix = "/v1/responses/"
	// conversationPrefix precedes a conversation's id.
	conversationPrefix = "/v1/conversations/"
)

var (
	readMethods  = []string{http.MethodGet, http.MethodHead}
	writeMethods = []string{http.MethodPost}

	routes = map[string]route{
		"/v1/responses/input_tokens": {name: "responses", methods: writeMethods, serve: byGateway((*gateway.Gateway).InputTokens)},
		"/v1/responses/compact":      {name: "responses", methods: writeMethods, serve: byGateway((*gateway.Gateway).Compact)},
		"/v1/chat/completions":       {name: "chat", methods: writeMethods, serve: byGateway((*gateway.Gateway).Chat)},
		"/v1/responses":              {name: "responses", methods: writeMethods, socket: true, serve: byGateway((*gateway.Gateway).Responses)},
		"/v1/completions":            {name: "completions", methods: writeMethods, serve: byGateway((*gateway.Gateway).Completions)},
		"/v1/conversations":          {name: "conversations", methods: writeMethods, serve: byGateway((*gateway.Gateway).CreateConversation)},
		"/v1/models":                 {name: "models", methods: readMethods, serve: byGateway((*gateway.Gateway).Models)},
		"/v1/usage":                  {name: "usage", methods: readMethods, serve: (*Handler).serveUsage},
		"/v1/usage/raw":              {name: "usage", methods: readMethods, serve: (*Handler).serveRawUsage},
		"/healthz":                   {methods: readMethods, open: true, serve: byGateway((*gateway.Gateway).Health)},
		"/readyz":                    {methods: readMethods, open: true, serve: byGateway((*gateway.Gateway).Ready)},
	}
	modelRoute = route{name: "models", methods: readMethods, serve: func(h *Handler, w http.ResponseWriter, r *http.Request) {
		h.gateway.Model(w, r, strings.TrimPrefix(r.URL.Path, modelPrefix))
	}}
	unknownRoute = route{name: "unknown", serve: func(_ *Handler, w http.ResponseWriter, r *http.Request) {
		refuse(w, r, apierror.NotFound(r.Method, r.URL.Path))
	}}
)

// responseRoutes are the routes of one response, by the path after its id.
var responseRoutes = map[string]struct {
	methods []string
	serve   func(*gateway.Gateway, http.ResponseWriter, *http.Request, string)
}{
	"":             {[]string{http.MethodGet, http.MethodHead, http.MethodDelete}, (*gateway.Gateway).Response},
	"/input_items": {readMethods, (*gateway.Gateway).InputItems},
	"/cancel":      {writeMethods, (*gateway.Gateway).CancelResponse},
}

// conversationRouteOf returns the route of a path of one conversation.
func conversationRouteOf(path string) (route, bool) {
	rest, ok := strings.CutPrefix(path, conversationPrefix)
	parts := strings.Split(rest, "/")
	if !ok || parts[0] == "" || len(parts) > 3 || len(parts) > 1 && parts[1] != "items" || len(parts) == 3 && parts[2] == "" {
		return route{}, false
	}
	rt := route{name: "conversations", methods: []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete}}
	switch len(parts) {
	case 1:
		rt.serve = func(h *Handler, w http.ResponseWriter, r *http.Request) { h.gateway.Conversation(w, r, parts[0]) }
	case 2:
		rt.methods = []string{http.MethodGet, http.MethodHead, http.MethodPost}
		rt.serve = func(h *Handler, w http.ResponseWriter, r *http.Request) { h.gateway.ConversationItems(w, r, parts[0]) }
	case 3:
		rt.methods = []string{http.MethodGet, http.MethodHead, http.MethodDelete}
		rt.serve = func(h *Handler, w http.ResponseWriter, r *http.Request) {
			h.gateway.ConversationItem(w, r, parts[0], parts[2])
		}
	}
	return rt, true
}

// byGateway returns the handler of a route that the gateway serves.
func byGateway(serve func(*gateway.Gateway, http.ResponseWriter, *http.Request)) func(*Handler, http.ResponseWriter, *http.Request) {
	return func(h *Handler, w http.ResponseWriter, r *http.Request) { serve(h.gateway, w, r) }
}

// routeOf returns the route of a path, and false if the path is not the API's.
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
	if r, ok := conversationRouteOf(path); ok {
		return r, true
	}
	if !strings.HasPrefix(path, "/v1/") {
		return route{}, false
	}
	if r, ok := misspelt(path); ok {
		return r, true
	}
	return unknownRoute, true
}

// responseRouteOf returns the route of a path of one response.
func responseRouteOf(path string) (route, bool) {
	rest, ok := strings.CutPrefix(path, responsePrefix)
	if !ok {
		return route{}, false
	}
	id, action := rest, ""
	if slash := strings.IndexByte(rest, '/'); slash >= 0 {
		id, action = rest[:slash], rest[slash:]
	}
	found, ok := responseRoutes[action]
	if !ok || id == "" {
		return route{}, false
	}
	return route{name: "responses", methods: found.methods, serve: func(h *Handler, w http.ResponseWriter, r *http.Request) {
		found.serve(h.gateway, w, r, id)
	}}, true
}

// serve checks the origin, the key, the host and the method, in this order and before
// the body is read. Then it serves the route and counts the result in the metrics.
func (h *Handler) serve(rt route, w http.ResponseWriter, r *http.Request) {
	if rt.socket && isHandshake(r) {
		rt = responsesSocket
	}
	if rt.name != "" {
		var outcome *requestOutcome
		r, outcome = withOutcome(r)
		defer func() {
			countRequest(rt.name, outcome)
			h.logWrongKey(r, outcome)
		}()
	}
	if h.cors.forged(r) {
		refuse(w, r, apierror.OriginNotAllowed(r.Header.Get("Origin")))
		return
	}
	if !rt.open {
		if apiErr := h.authenticate(r); apiErr != nil {
			refuse(w, r, apiErr)
			return
		}
	}
	switch {
	case !rt.open && userOf(r) == "" && !h.hosts.allow(h, r):
		refuse(w, r, apierror.HostNotAllowed(r.Host))
	case len(rt.methods) > 0 && !slices.Contains(rt.methods, r.Method):
		refuse(w, r, apierror.MethodNotAllowed(r.Method, r.URL.Path, strings.Join(rt.methods, ", ")))
	default:
		rt.serve(h, w, r)
	}
}

// refuse answers with an error before the body was read. An error of the writer means
// that the client has gone.
func refuse(w http.ResponseWriter, r *http.Request, e *apierror.Error) {
	if r.ContentLength != 0 {
		reqbody.LimitDiscard(w)
	}
	setFailure(r, e)
	_ = e.Respond(w)
}

const requestIDHeader = "X-Request-Id"

// validRequestID matches request ids that are accepted from clients. The id appears in
// headers and logs.
var validRequestID = regexp.MustCompile(`^[A-Za-z0-9._:/+=-]{1,128}$`)

// setRequestID sets the request's id on the answer and on the request. It is the
// client's own id if that is valid, else the uuid of Caddy's access log.
func setRequestID(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get(requestIDHeader)
	if !validRequestID.MatchString(id) {
		id = ""
		if repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
			id, _ = repl.GetString("http.request.uuid")
		}
		r.Header.Set(requestIDHeader, id)
	}
	w.Header().Set(requestIDHeader, id)
}

// responsesSocket is the route of WebSockets at /v1/responses. Its requests are counted one
// by one.
var responsesSocket = route{serve: func(h *Handler, w http.ResponseWriter, r *http.Request) {
	if h.forgedHandshake(r) {
		refuse(w, r, apierror.OriginNotAllowed(r.Header.Get("Origin")))
		return
	}
	h.gateway.ResponsesSocket(w, r, func(r *http.Request, serve func(*http.Request)) {
		r, outcome := withOutcome(r)
		defer func() { countRequest("responses", outcome) }()
		serve(r)
	})
}}

// isHandshake reports whether a request wants a WebSocket.
func isHandshake(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
}

// forgedHandshake reports whether a handshake comes from a page that may not use the API.
// Browsers send no preflight before it, so it is held to what a POST without one is.
func (h *Handler) forgedHandshake(r *http.Request) bool {
	post := r.Clone(r.Context())
	post.Method = http.MethodPost
	post.Header.Del("Content-Type")
	return h.cors.forged(post)
}

const (
	// pagePrefix precedes the names of the page's files.
	pagePrefix = "/codex/"
	// pageStatus is the path of the state that the page shows.
	pageStatus = pagePrefix + "status"
)

// pageRouteOf returns the route of a path of the page. The page itself needs no key: it
// has nothing but the files of this module. What it shows does.
func pageRouteOf(path string) (route, bool) {
	name, ok := strings.CutPrefix(path, pagePrefix)
	switch {
	case path == strings.TrimSuffix(pagePrefix, "/"):
		return route{methods: readMethods, open: true, serve: func(_ *Handler, w http.ResponseWriter, _ *http.Request) {
			// It is relative, since a prefix may have been stripped from the path.
			w.Header().Set("Location", strings.TrimPrefix(pagePrefix, "/"))
			w.WriteHeader(http.StatusPermanentRedirect)
		}}, true
	case path == pageStatus:
		return route{methods: readMethods, serve: (*Handler).servePageStatus}, true
	case ok && page.Has(name):
		return route{methods: readMethods, open: true, serve: func(_ *Handler, w http.ResponseWriter, r *http.Request) {
			page.Serve(w, r, name)
		}}, true
	}
	return route{}, false
}

// servePageStatus answers with the state of this handler's app-servers, as far as every
// caller of the API may know it, and with the requests whose usage the caller may see.
func (h *Handler) servePageStatus(w http.ResponseWriter, r *http.Request) {
	var all []*process
	for _, m := range h.pool.members {
		if p := m.current(); p != nil {
			all = append(all, p)
		}
	}
	body := status.Document{Version: version(), AppServers: statusesOf(r.Context(), all)}
	for i, one := range body.AppServers {
		body.AppServers[i] = one.Public(all[i].Status().Remedy)
	}
	body.Turns.Running, body.Turns.Waiting = h.gateway.Queue()
	account := h.accountOf(r)
	body.Requests = requestsOf(func(user string) bool { return h.Usage == usageAll || user == account })
	writeJSON(w, body)
}
