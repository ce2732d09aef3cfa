package caddymodule

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddytls"

	"github.com/caddy-codex/caddy-codex/internal/usage"
)

// hosts are the host names that are allowed in requests that neither a key nor another handler has
// authenticated. This stops DNS rebinding: a page can point its own host name at this server, and browsers
// then take the server for the page's origin. But the requests of the page still name the page's host.
type hosts struct {
	listed caddyhttp.MatchHost // the names of the option hosts

	once              sync.Once
	sites             []siteMatcher // the matchers of the routes that lead to the handler
	serverRealmSuffix string        // made from the address of the handler's server
}

// siteMatcher matches the hosts of a route to this handler. realmSuffix is made from the first host.
type siteMatcher struct {
	*caddyhttp.MatchHost
	realmSuffix string
}

// partialWildcard matches a name with a * that is not a whole part, which would match no host.
var partialWildcard = regexp.MustCompile(`[^.]\*|\*[^.]`)

func newHosts(ctx caddy.Context, names []string, repl *caddy.Replacer) (*hosts, error) {
	h := new(hosts)
	for _, given := range names {
		name, err := repl.ReplaceOrErr(given, true, true)
		if err != nil {
			return nil, fmt.Errorf("hosts: %w", err)
		}
		if name == "" || strings.ContainsAny(name, "/:@ {}") || partialWildcard.MatchString(name) {
			return nil, fmt.Errorf("hosts: %q is not the name of a host, such as api.example.com or *.example.com", name)
		}
		h.listed = append(h.listed, name)
	}
	if err := h.listed.Provision(ctx); err != nil {
		return nil, fmt.Errorf("hosts: %w", err)
	}
	return h, nil
}

// allow reports whether the Host of a request is an IP address, localhost, a name in the option hosts, or
// a name of a route to the handler.
func (h *hosts) allow(handler *Handler, r *http.Request) bool {
	name := hostName(r.Host)
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	if _, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer); !ok || name == "" {
		return false // the matchers need a request from Caddy
	}
	h.findSites(handler)
	return h.listed.Match(r) || slices.ContainsFunc(h.sites, func(s siteMatcher) bool { return s.Match(r) })
}

// findSites sets h.sites and h.serverRealmSuffix, if the handler belongs to a server. All routes must be known.
func (h *hosts) findSites(handler *Handler) {
	h.once.Do(func() {
		server := handler.server
		if server == nil || len(server.Listen) == 0 { // without an address, it gets no requests
			return
		}
		address := server.Listen[0]
		s := &siteSearch{server: server, handler: handler, port: unusualPort(address), namedRoutes: make(map[string]bool)}
		s.search(server.Routes, server.Errors)
		h.sites, h.serverRealmSuffix = s.sites, realmSuffix(realmName(address))
	})
}

// hostName returns a Host header's name in lower case, without port, brackets and final dot.
func hostName(host string) string {
	name, _, err := net.SplitHostPort(host)
	if err != nil { // there is no port
		name = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	}
	return strings.ToLower(strings.TrimSuffix(name, "."))
}

type siteSearch struct {
	server      *caddyhttp.Server
	handler     *Handler
	namedRoutes map[string]bool // for each named route that the search has entered: whether it leads to the handler
	port        string          // what unusualPort returns for the server
	sites       []siteMatcher
}

// search collects the host matchers of routes to the handler, and reports whether there are such routes.
func (s *siteSearch) search(routes caddyhttp.RouteList, onError *caddyhttp.HTTPErrorConfig) (found bool) {
	for _, route := range routes {
		routeLeads := false // all handlers are searched, for the matchers of their routes
		for _, handler := range route.Handlers {
			routeLeads = s.leadsToHandler(handler) || routeLeads
		}
		if !routeLeads {
			continue
		}
		found = true
		for _, matcher := range slices.Concat(route.MatcherSets...) {
			if m, ok := matcher.(*caddyhttp.MatchHost); ok && len(*m) > 0 {
				s.sites = append(s.sites, siteMatcher{m, realmSuffix(realmName((*m)[0] + s.port))})
			}
		}
	}
	if onError != nil {
		found = s.search(onError.Routes, nil) || found
	}
	return found
}

// leadsToHandler reports whether handler is s.handler, or has a route to it.
func (s *siteSearch) leadsToHandler(handler caddyhttp.MiddlewareHandler) bool {
	switch h := handler.(type) {
	case *Handler:
		return h == s.handler
	case *caddyhttp.Subroute:
		return s.search(h.Routes, h.Errors)
	case *caddyhttp.Invoke:
		route := s.server.NamedRoutes[h.Name]
		if _, known := s.namedRoutes[h.Name]; !known && route != nil {
			s.namedRoutes[h.Name] = false // set before the search, since a route may invoke itself
			s.namedRoutes[h.Name] = s.search(caddyhttp.RouteList{*route}, nil)
		}
		return s.namedRoutes[h.Name]
	}
	return false
}

// maxRealm bounds the name of a realm, in bytes.
const maxRealm = 100

// accountOf returns the name under which this Caddy stores the usage, responses and conversations
// of a request's user: user@realm. So users with the same name in two realms have two accounts.
func (h *Handler) accountOf(r *http.Request) string {
	suffix := h.realmSuffix
	if suffix == "" {
		suffix = h.hosts.siteRealmSuffix(h, r)
	}
	return usage.UserName(userOf(r) + suffix)
}

// realmSuffix returns the end of the account names in a realm: an @ and the realm, or "" without a
// realm. Callers store the result: accountOf then allocates no string for a user without a name.
func realmSuffix(realm string) string {
	if realm == "" {
		return ""
	}
	return "@" + realm
}

// checkRealm refuses what could give two users the same account, or break log lines.
func checkRealm(realm string) error {
	if realm == "" || len(realm) > maxRealm || strings.ContainsFunc(realm, func(c rune) bool { return c <= ' ' || c == '@' || c == 0x7f || c == 0xfffd }) {
		return fmt.Errorf("realm: %.100q is no name of 1 to %d bytes without spaces and @", realm, maxRealm)
	}
	return nil
}

func (h *Handler) resolveRealm(repl *caddy.Replacer) error {
	if h.Realm == "" {
		return nil
	}
	realm, err := repl.ReplaceOrErr(h.Realm, true, true)
	if err != nil {
		return fmt.Errorf("realm: %w", err)
	}
	h.realmSuffix = realmSuffix(realm)
	return checkRealm(realm)
}

// siteRealmSuffix returns the [realmSuffix] of a request's site: the first name of the outermost host
// matcher that has led the request to the handler, with the server's port if that is not 80 or 443,
// or else the server's address. It returns "" for a handler without a server.
func (h *hosts) siteRealmSuffix(handler *Handler, r *http.Request) string {
	h.findSites(handler)
	for _, s := range slices.Backward(h.sites) { // the matchers of outer routes are the last
		if s.Match(r) {
			return s.realmSuffix
		}
	}
	return h.serverRealmSuffix
}

// unusualPort returns the port of a server's address with a colon, or "" for none or a default port.
func unusualPort(address string) string {
	parsed, err := caddy.ParseNetworkAddress(address)
	if err != nil || parsed.StartPort == 0 || parsed.StartPort == caddyhttp.DefaultHTTPPort || parsed.StartPort == caddyhttp.DefaultHTTPSPort {
		return ""
	}
	return fmt.Sprintf(":%d", parsed.StartPort)
}

func realmName(site string) string {
	return strings.ToLower(strings.ReplaceAll(site, "@", "_"))
}

// isExposed reports whether strangers on other machines can use the handler.
func (h *Handler) isExposed() bool {
	if h.server == nil || !h.areNone() || !slices.ContainsFunc(h.server.Listen, isReachable) ||
		slices.ContainsFunc(h.server.TLSConnPolicies, func(p *caddytls.ConnectionPolicy) bool { return p.ClientAuthentication != nil }) {
		return false
	}
	h.hosts.findSites(h)
	names := []string{"localhost"} // any name, for a site without names
	for _, site := range h.hosts.sites {
		names = append(names, *site.MatchHost...)
	}
	return slices.ContainsFunc(names, func(name string) bool {
		return slices.ContainsFunc([]string{"/v1/chat/completions", "/chat/completions"}, func(path string) bool { // the handler serves both
			r := &http.Request{Method: http.MethodPost, URL: &url.URL{Path: path}, Host: strings.ReplaceAll(name, "*", "any"), Proto: "HTTP/1.1",
				ProtoMajor: 1, ProtoMinor: 1, Header: make(http.Header), Body: http.NoBody, RemoteAddr: "203.0.113.1:1"} // which nobody has
			st := &stranger{handler: h, r: caddyhttp.PrepareRequest(r, caddy.NewReplacer(), nil, h.server)}
			st.follow(h.server.Routes)
			return st.arrived
		})
	})
}

// isReachable reports whether other machines can reach an address of a server.
func isReachable(address string) bool {
	parsed, err := caddy.ParseNetworkAddress(address)
	if err != nil || parsed.IsUnixNetwork() || parsed.IsFdNetwork() || parsed.Host == "localhost" {
		return false
	}
	ip, err := netip.ParseAddr(parsed.Host)
	return err != nil || !ip.IsLoopback()
}

// stranger follows a request without credentials through the routes of a server, to the handler that serves it.
type stranger struct {
	handler *Handler
	r       *http.Request
	invoked []string // named routes
	arrived bool     // at the handler, and none after it has ended the way
}

// passing are the handlers that surely let a stranger pass. Others may ask who it is, or answer.
var passing = []string{"encode", "headers", "intercept", "log_append", "map", "push", "request_body", "rewrite", "templates", "tracing", "vars"}

// follow reports whether the way ends in these routes.
func (s *stranger) follow(routes caddyhttp.RouteList) (ends bool) {
	groups := make(map[string]bool) // of which a route has matched
	for _, route := range routes {
		if matches, err := route.MatcherSets.AnyMatchWithError(s.r); err != nil || !matches || groups[route.Group] {
			continue
		}
		groups[route.Group] = route.Group != ""
		if slices.ContainsFunc(route.Handlers, s.endsAt) || route.Terminal {
			return true
		}
	}
	return false
}

// endsAt reports whether the way ends at a handler.
func (s *stranger) endsAt(handler caddyhttp.MiddlewareHandler) bool {
	switch h := handler.(type) {
	case *Handler:
		s.arrived = h == s.handler
		_, ends := h.routeOf(s.r.URL.Path) // it serves other paths only if none after it does
		return ends
	case *caddyhttp.Subroute:
		return s.follow(h.Routes)
	case *caddyhttp.Invoke:
		route := s.handler.server.NamedRoutes[h.Name]
		if route == nil || slices.Contains(s.invoked, h.Name) {
			return true
		}
		s.invoked = append(s.invoked, h.Name)
		return s.follow(caddyhttp.RouteList{*route})
	}
	passes := slices.Contains(passing, caddy.GetModuleName(handler))
	s.arrived = s.arrived && passes
	return !passes
}
