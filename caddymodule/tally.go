package caddymodule

import (
	"context"
	"net/http"

	"github.com/caddy-codex/caddy-codex/internal/openai"
)

// tally is what becomes of a request. It belongs to the request's goroutine.
type tally struct {
	failure *openai.Error // the first one; nil: it is served
}

type tallyKey struct{}

// begin lets what becomes of a request be noted.
func begin(r *http.Request) (*http.Request, *tally) {
	t := new(tally)
	return r.WithContext(context.WithValue(r.Context(), tallyKey{}, t)), t
}

// note notes a failure. The first one is what the client is told.
func note(r *http.Request, e *openai.Error) {
	if t, ok := r.Context().Value(tallyKey{}).(*tally); ok && t.failure == nil {
		t.failure = e
	}
}
