// Package objects reads, changes and deletes what clients keep on the server: responses,
// those among them that go on, and conversations. Each function takes the request's user
// into account: what belongs to others does not exist.
package objects

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/responsestore"
)

// Objects are the responses and conversations of a store. Its methods are safe for
// concurrent use.
type Objects struct {
	Store   responsestore.Store        // nil: nothing is kept
	Running *Running                   // the responses that go on
	User    func(*http.Request) string // who asks
	Logger  *slog.Logger
}

// StoreTimeout bounds each use of the store, which may be on another machine.
const StoreTimeout = 10 * time.Second

// timed returns a context with the timeout of the store.
func timed(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, StoreTimeout)
}

// Failed logs why the store does not work, and returns what a client is told. ctx is that
// of the request, without the timeout of the store.
func (o *Objects) Failed(ctx context.Context, r *http.Request, err error) *apierror.Error {
	if ctx.Err() == nil { // else the request has ended anyway
		o.Logger.LogAttrs(ctx, slog.LevelWarn, "the store of responses failed",
			slog.String("request_id", r.Header.Get("X-Request-Id")),
			slog.String("error", err.Error()))
	}
	return apierror.StoreUnavailable()
}

// apiError returns why an object could not be used, or nil if err is nil. missing is the
// error for one that does not exist.
func (o *Objects) apiError(r *http.Request, err error, missing *apierror.Error) *apierror.Error {
	if err == nil {
		return nil
	}
	if apiErr, ok := errors.AsType[*apierror.Error](err); ok {
		return apiErr
	}
	switch {
	case errors.Is(err, responsestore.ErrNotFound):
		return missing
	case errors.Is(err, responsestore.ErrTooLarge):
		return apierror.ConversationTooLong()
	}
	return o.Failed(r.Context(), r, err)
}
