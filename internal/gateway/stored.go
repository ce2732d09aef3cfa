package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/responseid"
	"github.com/caddy-codex/caddy-codex/internal/responses"
	"github.com/caddy-codex/caddy-codex/internal/responsestore"
)

// Response serves GET and DELETE /v1/responses/{id}.
func (g *Gateway) Response(w http.ResponseWriter, r *http.Request, id string) {
	if r.Method == http.MethodDelete {
		body, apiErr := g.deleteResponse(r, id)
		g.answer(w, r, body, apiErr)
		return
	}
	from, stream, apiErr := wantsStream(r)
	if stream && apiErr == nil {
		g.conclude(r, g.streamResponse(w, r, id, from))
		return
	}
	var body []byte
	if apiErr == nil {
		body, apiErr = g.readResponse(r, id)
	}
	g.answer(w, r, body, apiErr)
}

// InputItems serves GET /v1/responses/{id}/input_items.
func (g *Gateway) InputItems(w http.ResponseWriter, r *http.Request, id string) {
	body, apiErr := g.inputItems(r, id)
	g.answer(w, r, body, apiErr)
}

// CancelResponse serves POST /v1/responses/{id}/cancel.
func (g *Gateway) CancelResponse(w http.ResponseWriter, r *http.Request, id string) {
	body, apiErr := g.cancelResponse(r, id)
	g.answer(w, r, body, apiErr)
}

// readResponse returns a stored response of the caller.
func (g *Gateway) readResponse(r *http.Request, id string) ([]byte, *apierror.Error) {
	entry, apiErr := g.entry(r, id)
	if apiErr != nil {
		return nil, apiErr
	}
	entry.Release() // a client may read slowly
	return entry.Response, nil
}

// inputItems returns a page of the input of a stored response of the caller.
func (g *Gateway) inputItems(r *http.Request, id string) ([]byte, *apierror.Error) {
	page, apiErr := responses.ReadPage(r.URL.Query())
	if apiErr != nil {
		return nil, apiErr
	}
	entry, apiErr := g.entry(r, id)
	if apiErr != nil {
		return nil, apiErr
	}
	defer entry.Release()
	return responses.ItemList(entry.Input, page)
}

// entry reads a stored response of the caller.
func (g *Gateway) entry(r *http.Request, id string) (*responsestore.Entry, *apierror.Error) {
	if g.opts.Responses == nil || !responseid.Valid(id) {
		return nil, apierror.ResponseNotFound(id)
	}
	// Those that run come first: a response is stored before it leaves their register.
	if entry := g.running.entry(g.opts.User(r), id); entry != nil {
		return entry, nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), storeTimeout)
	defer cancel()
	entry, err := g.stored(ctx, g.opts.User(r), id)
	return entry, g.notStored(r, id, err)
}

// notStored returns why a response was not found, or nil if err is nil.
func (g *Gateway) notStored(r *http.Request, id string, err error) *apierror.Error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, responsestore.ErrNotFound):
		return apierror.ResponseNotFound(id)
	}
	return g.storeFailed(r.Context(), r, err)
}

// deleteResponse deletes a stored response of the caller. It cancels one that goes on.
func (g *Gateway) deleteResponse(r *http.Request, id string) ([]byte, *apierror.Error) {
	if g.opts.Responses == nil || !responseid.Valid(id) {
		return nil, apierror.ResponseNotFound(id)
	}
	if one := g.running.find(g.opts.User(r), id); one != nil && one.form.request.Stored() {
		if _, err := g.running.stop(r.Context(), one); err != nil {
			return nil, apierror.From(err)
		}
	} else if g.nodes() != nil {
		if _, apiErr := g.cancelElsewhere(r, id); apiErr != nil && apiErr.Code != apierror.CodeResponseNotCancellable {
			return nil, apiErr
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), storeTimeout)
	defer cancel()
	if err := g.opts.Responses.Delete(ctx, g.opts.User(r), id); err != nil {
		return nil, g.notStored(r, id, err)
	}
	g.running.logs.Forget(id)
	return responses.Deleted(id), nil
}

// cancelElsewhere cancels a response of the caller that another node makes, and returns it.
func (g *Gateway) cancelElsewhere(r *http.Request, id string) (json.RawMessage, *apierror.Error) {
	entry, apiErr := g.entry(r, id)
	if apiErr != nil {
		return nil, apiErr
	}
	entry.Release()
	if !entry.Running {
		return nil, apierror.NotCancellable(id)
	}
	entry, err := g.stopElsewhere(r.Context(), g.opts.User(r), id)
	if pending, ok := errors.AsType[*apierror.Error](err); ok {
		return nil, pending
	}
	if apiErr := g.notStored(r, id, err); apiErr != nil {
		return nil, apiErr
	}
	entry.Release()
	return entry.Response, nil
}

// cancelResponse cancels a response of the caller that goes on, and returns it.
func (g *Gateway) cancelResponse(r *http.Request, id string) (json.RawMessage, *apierror.Error) {
	one := g.running.find(g.opts.User(r), id)
	if one == nil {
		return g.cancelElsewhere(r, id)
	}
	response, err := g.running.stop(r.Context(), one)
	switch {
	case err != nil:
		return nil, apierror.From(err)
	case response == nil: // it had not begun
		return nil, apierror.ResponseNotFound(id)
	}
	return response, nil
}
