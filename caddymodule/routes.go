package caddymodule

import (
	"cmp"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-codex/caddy-codex/internal/api"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/gateway"
	"github.com/caddy-codex/caddy-codex/internal/ollama"
	"github.com/caddy-codex/caddy-codex/internal/reqbody"
)

// route is one entry of the API.
type route struct {
	name         string      // in logs and metrics; empty: requests are not counted
	onlyFailures bool        // only requests that fail are counted
	methods      []string    // the allowed methods; nil: any
	noAPIKey     bool        // needs neither an API key nor an allowed host
	admin        bool        // needs the admin key in place of an API key, and refuses pages of other origins
	socket       *route      // the route of WebSockets at the path; nil: there are none
	noBody       bool        // even the body of a POST is skipped
	option       string      // exists only with this option; empty: always
	errors       *api.Errors // the form of errors; nil: the form of the client's API
	serve        func(h *Handler, w http.ResponseWriter, r *http.Request, args []string)
	args         []string // the segments of the path that match a * of the pattern
}

var (
	// routes maps paths to routes. A * in a path stands for one segment that is not empty.
	routes = withRoutes(map[string]route{
		"/v1/models":    {name: "models", methods: api.Get, serve: fromGateway((*gateway.Gateway).Models)},
		"/v1/usage":     {name: "usage", methods: api.Get, serve: (*Handler).serveUsage},
		"/v1/usage/raw": {name: "usage", methods: api.Get, serve: (*Handler).serveRawUsage},
		"/healthz":      {methods: api.Get, noAPIKey: true, serve: fromGateway((*gateway.Gateway).Health)},
		"/readyz":       {methods: api.Get, noAPIKey: true, serve: fromGateway((*gateway.Gateway).Ready)},
	})
	modelRoute = route{name: "models", methods: api.Get, serve: func(h *Handler, w http.ResponseWriter, r *http.Request, args []string) {
		h.gateway.Model(w, r, args[0])
	}}
	unknownRoute = route{name: "unknown", serve: func(_ *Handler, w http.ResponseWriter, r *http.Request, _ []string) {
		refuse(w, r, apierror.NotFound(r.Method, r.URL.Path))
	}}
)

func withRoutes(table map[string]route) map[string]route {
	for _, rt := range gateway.Routes() {
		added := route{
			onlyFailures: rt.Quiet, methods: rt.Methods, noAPIKey: rt.Public, noBody: rt.NoBody, option: rt.API.Option, errors: rt.API.Errors,
			serve: func(h *Handler, w http.ResponseWriter, r *http.Request, args []string) {
				h.gateway.Serve(rt, w, r, args...)
			},
		}
		if !rt.Uncounted {
			added.name = cmp.Or(rt.Name, rt.API.Name)
		}
		if rt.Socket != nil {
			added.socket = socketRoute(rt, added.name)
		}
		table[rt.Path] = added
	}
	return table
}

func fromGateway(serve func(*gateway.Gateway, http.ResponseWriter, *http.Request)) func(*Handler, http.ResponseWriter, *http.Request, []string) {
	return func(h *Handler, w http.ResponseWriter, r *http.Request, _ []string) { serve(h.gateway, w, r) }
}

// routeOf returns the route of a path, which may be misspelt below /v1/ and /api/. For any other path below
// /v1/, it returns unknownRoute. For any other path elsewhere, it returns false: the path is the next handler's.
func (h *Handler) routeOf(path string) (route, bool) {
	found, ok := h.exactRouteOf(path)
	if !ok && h.Ollama {
		found, ok = h.ollamaRouteOf(path)
	}
	if ok || !strings.HasPrefix(path, "/v1/") {
		return found, ok
	}
	if found, ok = h.misspeltRouteOf(path); ok {
		return found, true
	}
	return unknownRoute, true
}

// exactRouteOf returns the route of a path, and false if there is none or its option is off.
func (h *Handler) exactRouteOf(path string) (route, bool) {
	if found, ok := routes[path]; ok && !strings.Contains(path, "*") && h.isOn(found.option) {
		return found, true
	}
	if id, ok := strings.CutPrefix(path, "/v1/models/"); ok && id != "" { // the id may contain slashes
		found := modelRoute
		found.args = []string{id}
		return found, true
	}
	for pattern, found := range routes {
		if args, ok := match(pattern, path); ok && h.isOn(found.option) {
			found.args = args
			return found, true
		}
	}
	return route{}, false
}

// match reports whether a path matches a pattern, and returns the segments in the place of each `*`.
func match(pattern, path string) (args []string, ok bool) {
	before, after, hasWildcard := strings.Cut(pattern, "*")
	remainder, ok := strings.CutPrefix(path, before)
	if !ok || !hasWildcard {
		return nil, ok && remainder == ""
	}
	segment, _, _ := strings.Cut(remainder, "/")
	if args, ok = match(after, remainder[len(segment):]); !ok || segment == "" {
		return nil, false
	}
	return append([]string{segment}, args...), true
}

// prepare sets reqCtx up, before any check, to record the request's result and encode its errors, also if
// the request is refused. For a route that is not counted, it does nothing.
func (rt *route) prepare(w http.ResponseWriter, r *http.Request, reqCtx *requestContext) {
	if rt.name == "" {
		return
	}
	reqCtx.Context = r.Context()
	format := rt.errors
	if format == nil {
		format = gateway.ClientAPI(r).Errors
	}
	if format != nil {
		if reqCtx.encoder = format.Encode; format.IDHeader != "" {
			w.Header()[format.IDHeader] = reqCtx.ids[1:]
		}
	}
	*r = *r.WithContext(reqCtx) // in place: a copy would stay in memory until the answer ends
	replacerOf(r).Map(reqCtx.placeholder)
}

// serve makes all checks that need no body, serves the route, and counts the result in the metrics.
func (h *Handler) serve(rt route, w http.ResponseWriter, r *http.Request, reqCtx *requestContext) {
	if rt.socket != nil && r.Method == http.MethodGet && strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		rt = *rt.socket
	}
	if rt.name != "" {
		defer func() {
			if reqCtx.failure != nil || !rt.onlyFailures {
				countRequest(rt.name, reqCtx.failure)
			}
			h.recordRefusal(r, reqCtx, rt.name)
		}()
	}
	if h.cors.isForged(r) {
		refuse(w, r, apierror.OriginNotAllowed(r.Header.Get("Origin")))
		return
	}
	if rt.admin {
		if apiErr := h.authenticateAdmin(r); apiErr != nil {
			refuse(w, r, apiErr)
			return
		}
	} else if !rt.noAPIKey {
		if _, apiErr := h.checkKey(r); apiErr != nil {
			refuse(w, r, apiErr)
			return
		}
		reqCtx.user, reqCtx.identified = userOf(r), true
	}
	switch {
	case !rt.noAPIKey && reqCtx.user == "" && !h.hosts.allow(h, r):
		refuse(w, r, apierror.HostNotAllowed(r.Host))
	case len(rt.methods) > 0 && !slices.Contains(rt.methods, r.Method):
		refuse(w, r, apierror.MethodNotAllowed(r.Method, r.URL.Path, strings.Join(rt.methods, ", ")))
	case r.Method != http.MethodGet && r.Method != http.MethodHead && inEarlyData(r):
		refuse(w, r, apierror.TooEarly())
	case (rt.noBody || r.Method != http.MethodPost) && !reqbody.Skip(w, r):
		refuse(w, r, apierror.BodyTimeout(reqbody.MinRate, reqbody.MaxTime))
	default:
		rt.serve(h, w, r, rt.args)
	}
}

// inEarlyData reports whether a request may have arrived before its TLS handshake ended, here or at a
// proxy (which adds Early-Data). An attacker can record such a request and send it again, and its turn
// would run twice. HTTP/3 accepts such requests by default, see Caddy's option 0rtt.
func inEarlyData(r *http.Request) bool {
	return r.TLS != nil && !r.TLS.HandshakeComplete || r.Header.Get("Early-Data") == "1"
}

// refuse answers with an error before the body is read. It ignores write errors: the client has gone.
func refuse(w http.ResponseWriter, r *http.Request, e *apierror.Error) {
	if r.ContentLength != 0 {
		reqbody.LimitDiscard(w)
	}
	setFailure(r, e)
	_ = e.Respond(w, r)
}

const requestIDHeader = "X-Request-Id"

// validRequestID matches the ids that are taken from clients into headers and logs.
var validRequestID = regexp.MustCompile(`^[A-Za-z0-9._:/+=-]{1,128}$`)

// setRequestID sets the request's id in the headers of request and answer: the client's id if it is valid,
// else a new one. ids holds the values of the two headers.
func setRequestID(w http.ResponseWriter, r *http.Request, ids *[2]string) {
	if ids[0] = r.Header.Get(requestIDHeader); ids[0] == "" || !validRequestID.MatchString(ids[0]) {
		ids[0], _ = replacerOf(r).GetString("http.request.uuid") // which Caddy's access log has, too
		r.Header[requestIDHeader] = ids[:1:1]
	}
	ids[1] = ids[0]
	w.Header()[requestIDHeader] = ids[1:]
}

// socketRoute returns the route of the WebSockets of a route. Each request over a WebSocket is counted
// when it ends. So [Handler.serve] counts the handshake only if the handshake fails.
func socketRoute(rt *gateway.Route, name string) *route {
	return &route{name: name, onlyFailures: true, serve: func(h *Handler, w http.ResponseWriter, r *http.Request, _ []string) {
		if h.isForgedSocketHandshake(r) {
			refuse(w, r, apierror.OriginNotAllowed(r.Header.Get("Origin")))
			return
		}
		h.gateway.ServeSocket(rt, w, r, func(r *http.Request, serve func(*http.Request)) {
			reqCtx := &requestContext{Context: r.Context()}
			defer func() {
				countRequest(name, reqCtx.failure)
				h.recordRefusal(r, reqCtx, name)
			}()
			serve(r.WithContext(reqCtx))
		})
	}}
}

// isForgedSocketHandshake reports whether the handshake of a WebSocket comes from a page that may not use
// the API. Browsers send no preflight before a handshake, so it is checked like a simple POST.
func (h *Handler) isForgedSocketHandshake(r *http.Request) bool {
	post := r.Clone(r.Context())
	post.Method = http.MethodPost
	post.Header.Del("Content-Type")
	return h.cors.isForged(post)
}

// misspeltPrefix matches what may stand for /v1/: a wrong base URL leaves it out or repeats it.
// Azure's clients name a deployment, which is ignored, since the body names the model.
var misspeltPrefix = regexp.MustCompile(`^(/api)?(/openai)?(/deployments/[^/]+)?(/v1)*/`)

// misspeltRouteOf corrects a path with doubled or trailing slashes, or from a wrong base URL, and returns
// the route of the corrected path. It returns false if there is none, or if the path needs no correction.
func (h *Handler) misspeltRouteOf(path string) (route, bool) {
	clean := withoutSlashes(path)
	corrected := "/v1/" + clean[len(misspeltPrefix.FindString(clean)):]
	if corrected == path {
		return route{}, false
	}
	found, ok := h.exactRouteOf(corrected)
	serve := found.serve
	found.serve = func(h *Handler, w http.ResponseWriter, r *http.Request, args []string) {
		r.URL.Path, r.URL.RawPath = corrected, ""
		serve(h, w, r, args)
	}
	return found, ok
}

func withoutSlashes(path string) string {
	return "/" + strings.Join(strings.FieldsFunc(path, func(r rune) bool { return r == '/' }), "/")
}

// notTheAPIRoute answers for paths that are not served. It has no secrets, so it needs no key.
var notTheAPIRoute = route{name: "unknown", noAPIKey: true, serve: func(_ *Handler, w http.ResponseWriter, r *http.Request, _ []string) {
	refuse(w, r, apierror.NotTheAPI(r.Method, r.URL.Path, baseURL(r)))
}}

// baseURL returns the base URL of the API as the client of a request sees it.
func baseURL(r *http.Request) string {
	scheme := "https://"
	if r.TLS == nil && r.Header.Get("X-Forwarded-Proto") != "https" {
		scheme = "http://"
	}
	return scheme + r.Host + "/v1"
}

// withoutWriteDeadlines removes from w the outermost writer of Caddy, which sets a deadline before each
// write. That costs more than writing a small chunk, and streams set deadlines themselves, which are
// shorter than Caddy's default. If the operator has configured a stricter limit, the writer stays.
func withoutWriteDeadlines(w http.ResponseWriter, r *http.Request) http.ResponseWriter {
	_, idle := caddyhttp.IdleTimeoutsFromContext(r.Context())
	if idle == nil {
		return w
	}
	if d := idle.Deadline; d.Timeout < gateway.WriteTimeout || d.MinRate > 0 || !d.HardDeadline.IsZero() {
		return w
	}
	if w == http.ResponseWriter(idle) {
		return idle.ResponseWriter
	}
	return w
}

func (rt route) inOllamasForm() route {
	rt.errors = ollama.API.Errors
	return rt
}

// ollamaPrefix matches the beginning of a path of Ollama's API, even if a client with a wrong base
// URL repeats /v1 or /api in it.
var ollamaPrefix = regexp.MustCompile(`^(/v1|/api)*/api/`)

// ollamaRouteOf returns the route of a path of Ollama's API that is misspelt. For any other path below /api/,
// it returns unknownRoute in Ollama's form, unless the path is a misspelt one of another API.
func (h *Handler) ollamaRouteOf(path string) (route, bool) {
	clean := withoutSlashes(path)
	if prefix := ollamaPrefix.FindString(clean); prefix != "" {
		clean = "/api/" + clean[len(prefix):]
	}
	if found, ok := h.exactRouteOf(clean); ok && found.option == ollama.API.Option {
		return found, true
	}
	_, isMisspelt := h.misspeltRouteOf(path)
	return unknownRoute.inOllamasForm(), strings.HasPrefix(path, "/api/") && !isMisspelt
}

// optionFields has the indexes of the fields of [Handler], by their names in JSON.
var optionFields = func() map[string][]int {
	fields := make(map[string][]int)
	for _, field := range reflect.VisibleFields(reflect.TypeFor[Handler]()) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		fields[name] = field.Index
	}
	return fields
}()

// isOn reports whether an option of an API is on. An empty option, of an API without one, is always on.
func (h *Handler) isOn(option string) bool {
	return option == "" || reflect.ValueOf(h).Elem().FieldByIndex(optionFields[option]).Bool()
}
