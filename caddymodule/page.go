package caddymodule

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"fmt"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/api"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/status"
	"github.com/caddy-codex/caddy-codex/internal/usage"
)

const pageIndex = "index.html"

//go:embed page
var pageFiles embed.FS

// pageTypes are the media types of the page's files. The types of package mime depend on the machine.
var pageTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
	".txt":  "text/plain; charset=utf-8",
}

// pagePolicy allows the page its own files, requests to its own site, and images that a person has
// chosen. It forbids inline scripts and styles, and everything from other sites.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// servePage answers a GET or HEAD request for a file of the page, which must exist.
func servePage(w http.ResponseWriter, r *http.Request, name string) {
	body, _ := pageFiles.ReadFile("page/" + name)
	header := w.Header()
	header.Set("Content-Type", pageTypes[path.Ext(name)])
	header.Set("ETag", fmt.Sprintf(`"%.12x"`, sha256.Sum256(body)))
	header.Set("Cache-Control", "no-cache") // browsers ask again each time, and usually get a 304
	header.Set("Content-Security-Policy", pagePolicy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(body))
}

// pagePrefix precedes the names of the page's files in the paths of URLs.
const pagePrefix = "/codex/"

// pageRoutes are the routes of the page. Its files need no key, since they are the same for
// everybody. The status that it shows needs an API key if there are API keys. The routes for
// administrators exist only with an admin key.
var pageRoutes = func() map[string]route {
	all := map[string]route{
		strings.TrimSuffix(pagePrefix, "/"): {methods: api.Get, noAPIKey: true, serve: func(_ *Handler, w http.ResponseWriter, _ *http.Request, _ []string) {
			w.Header().Set("Location", strings.TrimPrefix(pagePrefix, "/")) // relative: a prefix may have been stripped from the path
			w.WriteHeader(http.StatusPermanentRedirect)
		}},

		pagePrefix + "status":       {name: "page", onlyFailures: true, methods: api.Get, serve: (*Handler).servePageStatus},
		pagePrefix + "trace":        {name: "page", onlyFailures: true, methods: []string{http.MethodGet, http.MethodPost}, noBody: true, serve: (*Handler).servePageRecordings},
		pagePrefix + "admin/status": {name: "page", onlyFailures: true, admin: true, noAPIKey: true, methods: api.Get, serve: (*Handler).serveAdminStatus},
		pagePrefix + "admin/login":  {name: "page", onlyFailures: true, admin: true, noAPIKey: true, methods: []string{http.MethodPost, http.MethodDelete}, noBody: true, serve: adminAction(signIn).serve},
		pagePrefix + "admin/credit": {name: "page", onlyFailures: true, admin: true, noAPIKey: true, methods: []string{http.MethodPost}, noBody: true, serve: adminAction(spendResetCredit).serve},
	}
	files, _ := pageFiles.ReadDir("page") // the files of a program that was built exist
	for _, file := range files {
		all[pagePrefix+file.Name()] = route{methods: api.Get, noAPIKey: true, serve: func(_ *Handler, w http.ResponseWriter, r *http.Request, _ []string) {
			servePage(w, r, file.Name())
		}}
	}
	all[pagePrefix] = all[pagePrefix+pageIndex]
	return all
}()

// servePageStatus answers with the public state of the app-servers, and visibleUser's requests.
func (h *Handler) servePageStatus(w http.ResponseWriter, r *http.Request, _ []string) {
	h.gateway.Document(w, r, func() (any, *apierror.Error) {
		body := h.statusDocument(r, h.visibleUser(r))
		for i, p := range h.pool.Processes() {
			body.AppServers[i] = body.AppServers[i].Public(p.Status().Remedy)
		}
		return struct {
			status.Document
			Administration bool `json:"administration,omitempty"` // true if there is an admin key
		}{body, h.adminKey != nil}, nil
	})
}

func (h *Handler) statusDocument(r *http.Request, user string) status.Document {
	body := statusOf(r, h.pool.Processes(), user)
	held := h.gateway.Held()
	body.Turns.Running, body.Turns.Waiting = held.Turns, held.Waiting
	return body
}

// serveAdminStatus answers with the whole state, like the admin API, and everybody's requests.
func (h *Handler) serveAdminStatus(w http.ResponseWriter, r *http.Request, _ []string) {
	h.gateway.Document(w, r, func() (any, *apierror.Error) { return h.statusDocument(r, usage.Everybody), nil })
}
