// Package objects reads, changes and deletes what clients keep on the server: conversations, and
// responses, which may still be running. Each function finds only what belongs to the request's
// user.
package objects

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/failures"
	"github.com/caddy-codex/caddy-codex/internal/responseid"
	"github.com/caddy-codex/caddy-codex/internal/store"
)

// Objects are the responses and conversations of a store. All methods are safe for concurrent use.
type Objects struct {
	Store   *Store                     // nil: nothing is kept
	Running *Running                   // the responses that are running
	User    func(*http.Request) string // returns the user of a request
	Logger  *slog.Logger
}

// StoreTimeout bounds each use of the store. The store may be on another machine.
const StoreTimeout = 10 * time.Second

func withStoreTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, StoreTimeout)
}

// Failed logs why the store failed and returns the error for the client. ctx is the request's
// context, without the timeout of the store.
func (o *Objects) Failed(ctx context.Context, r *http.Request, err error) *apierror.Error {
	if ctx.Err() == nil { // otherwise the store failed because the request has ended
		o.Logger.WarnContext(ctx, "the store of responses failed", "request_id", r.Header.Get("X-Request-Id"), "error", err.Error())
	}
	return apierror.StoreUnavailable()
}

// apiError converts err, perhaps nil, to an API error: store.ErrNotFound to missing.
func (o *Objects) apiError(r *http.Request, err error, missing *apierror.Error) *apierror.Error {
	if err == nil {
		return nil
	}
	if apiErr, ok := errors.AsType[*apierror.Error](err); ok {
		return apiErr
	}
	switch {
	case errors.Is(err, store.ErrNotFound):
		return missing
	case errors.Is(err, store.ErrTooLarge):
		return apierror.ConversationTooLong()
	}
	return o.Failed(r.Context(), r, err)
}

// with calls run with a context that ends after StoreTimeout. missing is the error if the object does not exist,
// or if its id is not valid.
func (o *Objects) with(r *http.Request, valid bool, missing *apierror.Error, run func(context.Context) ([]byte, error)) ([]byte, *apierror.Error) {
	if o.Store == nil || !valid {
		return nil, missing
	}
	ctx, cancel := withStoreTimeout(r.Context())
	defer cancel()
	body, err := run(ctx)
	return body, o.apiError(r, err, missing)
}

func (o *Objects) withResponse(r *http.Request, id string, run func(context.Context) ([]byte, error)) ([]byte, *apierror.Error) {
	return o.with(r, responseid.Valid(id), apierror.ResponseNotFound(id), run)
}

// Response returns a stored response of the caller: GET /v1/responses/{id}.
func (o *Objects) Response(r *http.Request, id string, claimMemory Hold) ([]byte, *apierror.Error) {
	return o.withResponse(r, id, func(ctx context.Context) ([]byte, error) {
		if one := o.Running.findStored(o.User(r), id); one != nil {
			return o.Running.currentResponse(one, claimMemory)
		}
		return o.copyObject(ctx, r, id, claimMemory)
	})
}

func (o *Objects) copyObject(ctx context.Context, r *http.Request, id string, claimMemory Hold) ([]byte, error) {
	entry, err := o.Store.GetObject(ctx, o.User(r), id)
	if err != nil {
		return nil, err
	}
	defer entry.Release()
	return copyPart(entry.Response, claimMemory)
}

// copyPart returns a copy of a part of an entry. So the entry, which may be much larger, can be
// released before a slow client has read the copy.
func copyPart(part json.RawMessage, claimMemory Hold) ([]byte, error) {
	if apiErr := claimMemory(int64(len(part))); apiErr != nil {
		return nil, apiErr
	}
	return bytes.Clone(part), nil
}

// InputItems returns a page of the input of a response: GET /v1/responses/{id}/input_items.
func (o *Objects) InputItems(r *http.Request, id string, claimMemory Hold) ([]byte, *apierror.Error) {
	return o.listInput(r, id, claimMemory, o.withResponse)
}

// listInput returns a page of the input of a response, or of the items of a conversation. with is the
// method for that kind of objects.
func (o *Objects) listInput(r *http.Request, id string, claimMemory Hold,
	with func(*http.Request, string, func(context.Context) ([]byte, error)) ([]byte, *apierror.Error),
) ([]byte, *apierror.Error) {
	page, apiErr := readPage(r.URL.Query())
	if apiErr != nil {
		return nil, apiErr
	}
	return with(r, id, func(ctx context.Context) ([]byte, error) {
		entry, err := o.find(ctx, r, id, o.Store.Get)
		if err != nil {
			return nil, err
		}
		defer entry.Release()
		return itemList(entry.Input, page, claimMemory)
	})
}

// find returns an entry of the caller. If the response is running, the entry has neither Response nor
// Output. Otherwise find calls read, which asks the store. A response is stored before it leaves
// o.Running, so find looks in o.Running first.
func (o *Objects) find(ctx context.Context, r *http.Request, id string, read func(ctx context.Context, user, id string) (*Entry, error)) (*Entry, error) {
	if one := o.Running.findStored(o.User(r), id); one != nil {
		return &Entry{User: one.Entry.User, Input: one.Entry.Input}, nil
	}
	return read(ctx, o.User(r), id)
}

// DeleteResponse deletes a response of the caller, and cancels it if it is still running: DELETE
// /v1/responses/{id}. If the response has not ended after cancelWait, it ends later, and is not
// stored then.
func (o *Objects) DeleteResponse(r *http.Request, id string) ([]byte, *apierror.Error) {
	if o.Store == nil || !responseid.Valid(id) {
		return nil, apierror.ResponseNotFound(id)
	}
	one := o.Running.markDeleted(o.User(r), id)
	if one != nil {
		if _, err := o.Running.stop(r.Context(), one); err != nil && !errors.Is(err, errStillRunning) {
			return nil, failures.APIError(err)
		}
	} else if o.backgroundStore() != nil {
		if _, apiErr := o.cancelElsewhere(r, id); apiErr != nil && apiErr.Code != apierror.CodeResponseNotCancellable {
			return nil, apiErr // a response that cannot be cancelled has ended, and is deleted below
		}
	}
	ctx, cancel := withStoreTimeout(r.Context())
	defer cancel()
	err := o.Store.Delete(ctx, o.User(r), id)
	if one != nil && errors.Is(err, store.ErrNotFound) {
		err = nil // the response was not stored yet, and will not be stored
	}
	if err != nil {
		return nil, o.apiError(r, err, apierror.ResponseNotFound(id))
	}
	o.Running.Logs.Forget(id)
	return deleted(id, "response"), nil
}

// CancelResponse cancels a running response: POST /v1/responses/{id}/cancel. It returns the response
// as it ended or, if the response has not ended after cancelWait, as it is then.
func (o *Objects) CancelResponse(r *http.Request, id string, claimMemory Hold) (json.RawMessage, *apierror.Error) {
	one := o.Running.find(o.User(r), id)
	switch {
	case one == nil:
		return o.cancelElsewhere(r, id)
	case o.Running.isOver(id): // the response has ended, and is still being stored
		return nil, apierror.NotCancellable(id)
	}
	response, err := o.Running.stop(r.Context(), one)
	if errors.Is(err, errStillRunning) {
		response, err = o.Running.currentResponse(one, claimMemory)
	}
	switch {
	case err != nil:
		return nil, failures.APIError(err)
	case response == nil: // the response had not begun
		return nil, apierror.ResponseNotFound(id)
	}
	return response, nil
}

// endCheckPause is the pause between two checks whether another node has ended a response.
const endCheckPause = 250 * time.Millisecond

// cancelElsewhere asks the node that makes a response of the caller to cancel it. It waits until the
// response has ended, and returns it.
func (o *Objects) cancelElsewhere(r *http.Request, id string) ([]byte, *apierror.Error) {
	return o.withResponse(r, id, func(ctx context.Context) ([]byte, error) {
		for asked := false; ; asked = true {
			entry, err := o.find(ctx, r, id, o.Store.GetObject)
			if err != nil {
				return nil, err
			}
			entry.Release()
			switch {
			case !entry.Running && !asked:
				return nil, apierror.NotCancellable(id)
			case !entry.Running:
				return entry.Response, nil
			case !asked:
				if _, err := o.Store.engine.Append(ctx, o.User(r), id, &store.Append{Part: store.Events, Cancel: true}); err != nil {
					return nil, err
				}
			}
			select {
			case <-time.After(endCheckPause):
			case <-ctx.Done():
				return nil, apierror.CancelPending(id)
			}
		}
	})
}
