package caddymodule

import (
	"bufio"
	"net"
	"net/http"
	"regexp"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
)

// foreignPrefix matches what clients put before the paths of the API if their base URL is
// wrong: nothing, or /v1 more than once; and the paths of Azure's API, whose deployment is
// the model, which the body names as well.
var foreignPrefix = regexp.MustCompile(`^(/api)?(/openai)?(/deployments/[^/]+)?(/v1)*/`)

// misspelt returns the route that a client means with a path that is no route: one with
// doubled or trailing slashes, or of a wrong base URL.
func misspelt(path string) (route, bool) {
	clean := "/" + strings.Join(strings.FieldsFunc(path, func(r rune) bool { return r == '/' }), "/")
	meant := "/v1/" + clean[len(foreignPrefix.FindString(clean)):]
	if meant == path {
		return route{}, false
	}
	found, ok := exactly(meant)
	serve := found.serve
	found.serve = func(h *Handler, w http.ResponseWriter, r *http.Request, args []string) {
		r.URL.Path, r.URL.RawPath = meant, ""
		serve(h, w, r, args)
	}
	return found, ok
}

// signpost answers the paths that nobody on the site answers. It needs no key, since it
// contains nothing but what every caller knows.
var signpost = route{name: "unknown", open: true, serve: func(_ *Handler, w http.ResponseWriter, r *http.Request, _ []string) {
	refuse(w, r, apierror.NotTheAPI(r.Method, r.URL.Path, baseURL(r)))
}}

// baseURL returns the base URL by which the client of a request reaches the API.
func baseURL(r *http.Request) string {
	scheme := "https://"
	if r.TLS == nil && r.Header.Get("X-Forwarded-Proto") != "https" {
		scheme = "http://"
	}
	return scheme + r.Host + "/v1"
}

// untouched is a response that other handlers may answer. Caddy's last handler answers
// nothing, which a client gets as an empty 200.
type untouched struct {
	*caddyhttp.ResponseWriterWrapper
	touched bool
}

// WriteHeader implements [http.ResponseWriter].
func (u *untouched) WriteHeader(status int) {
	u.touched = true
	u.ResponseWriterWrapper.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (u *untouched) Write(body []byte) (int, error) {
	u.touched = true
	return u.ResponseWriterWrapper.Write(body)
}

// FlushError implements what [http.ResponseController] looks for.
func (u *untouched) FlushError() error {
	u.touched = true
	return http.NewResponseController(u.ResponseWriter).Flush()
}

// Hijack implements [http.Hijacker].
func (u *untouched) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	u.touched = true
	return http.NewResponseController(u.ResponseWriter).Hijack()
}
