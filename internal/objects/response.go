package objects

import (
	"encoding/json"
	"net/http"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/responseid"
	"github.com/caddy-codex/caddy-codex/internal/responses"
	"github.com/caddy-codex/caddy-codex/internal/responsestore"
)

// Response returns a stored response of the caller: GET /v1/responses/{id}.
func (o *Objects) Response(r *http.Request, id string) (json.RawMessage, *apierror.Error) {
	entry, apiErr := o.entry(r, id)
	if apiErr != nil {
		return nil, apiErr
	}
	entry.Release() // a client may read slowly
	return entry.Response, nil
}

// InputItems returns a page of the input of a stored response of the caller:
// GET /v1/responses/{id}/input_items.
func (o *Objects) InputItems(r *http.Request, id string) ([]byte, *apierror.Error) {
	page, apiErr := responses.ReadPage(r.URL.Query())
	if apiErr != nil {
		return nil, apiErr
	}
	entry, apiErr := o.entry(r, id)
	if apiErr != nil {
		return nil, apiErr
	}
	defer entry.Release()
	return responses.ItemList(entry.Input, page)
}

// entry reads a stored response of the caller.
func (o *Objects) entry(r *http.Request, id string) (*responsestore.Entry, *apierror.Error) {
	if o.Store == nil || !responseid.Valid(id) {
		return nil, apierror.ResponseNotFound(id)
	}
	// Those that run come first: a response is stored before it leaves their register.
	if entry := o.Running.entry(o.User(r), id); entry != nil {
		return entry, nil
	}
	ctx, cancel := timed(r.Context())
	defer cancel()
	entry, err := o.stored(ctx, o.User(r), id)
	return entry, o.apiError(r, err, apierror.ResponseNotFound(id))
}

// DeleteResponse deletes a stored response of the caller and cancels it if it goes on:
// DELETE /v1/responses/{id}.
func (o *Objects) DeleteResponse(r *http.Request, id string) ([]byte, *apierror.Error) {
	if o.Store == nil || !responseid.Valid(id) {
		return nil, apierror.ResponseNotFound(id)
	}
	if one := o.Running.find(o.User(r), id); one != nil && one.Stored {
		if _, err := o.Running.stop(r.Context(), one); err != nil {
			return nil, apierror.From(err)
		}
	} else if o.nodes() != nil {
		if _, apiErr := o.cancelElsewhere(r, id); apiErr != nil && apiErr.Code != apierror.CodeResponseNotCancellable {
			return nil, apiErr
		}
	}
	ctx, cancel := timed(r.Context())
	defer cancel()
	if err := o.Store.Delete(ctx, o.User(r), id); err != nil {
		return nil, o.apiError(r, err, apierror.ResponseNotFound(id))
	}
	o.forgetEvents(ctx, id)
	return responses.Deleted(id), nil
}

// CancelResponse cancels a response of the caller that goes on, and returns it:
// POST /v1/responses/{id}/cancel.
func (o *Objects) CancelResponse(r *http.Request, id string) (json.RawMessage, *apierror.Error) {
	one := o.Running.find(o.User(r), id)
	if one == nil {
		return o.cancelElsewhere(r, id)
	}
	response, err := o.Running.stop(r.Context(), one)
	switch {
	case err != nil:
		return nil, apierror.From(err)
	case response == nil: // it had not begun
		return nil, apierror.ResponseNotFound(id)
	}
	return response, nil
}

// cancelElsewhere cancels a response of the caller that another node makes, and returns it.
func (o *Objects) cancelElsewhere(r *http.Request, id string) (json.RawMessage, *apierror.Error) {
	entry, apiErr := o.entry(r, id)
	if apiErr != nil {
		return nil, apiErr
	}
	entry.Release()
	if !entry.Running {
		return nil, apierror.NotCancellable(id)
	}
	entry, err := o.stopElsewhere(r.Context(), o.User(r), id)
	if apiErr := o.apiError(r, err, apierror.ResponseNotFound(id)); apiErr != nil {
		return nil, apiErr
	}
	entry.Release()
	return entry.Response, nil
}
