package caddymodule

import (
	"net/http"
	"regexp"

	"github.com/caddyserver/caddy/v2"
)

const requestIDHeader = "X-Request-Id"

// sane is what a request id of the client's must look like to be passed on:
// it ends up in headers and logs.
var sane = regexp.MustCompile(`^[A-Za-z0-9._:/+=-]{1,128}$`)

// setRequestID puts the request's id on the answer: the client's own if it
// sent a sane one, else Caddy's, which the access log knows as uuid.
func setRequestID(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get(requestIDHeader)
	if !sane.MatchString(id) {
		id = ""
		if repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
			id, _ = repl.GetString("http.request.uuid")
		}
		r.Header.Set(requestIDHeader, id)
	}
	w.Header().Set(requestIDHeader, id)
}
