package caddymodule

import (
	"net/http"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/page"
	"github.com/caddy-codex/caddy-codex/internal/status"
)

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
