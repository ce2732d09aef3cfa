package gateway

import (
	"context"
	"errors"
	"net/http"

	"github.com/caddy-codex/caddy-codex/internal/openai"
	"github.com/caddy-codex/caddy-codex/internal/responsestore"
)

// Response serves GET and DELETE /v1/responses/{id}.
func (g *Gateway) Response(w http.ResponseWriter, r *http.Request, id string) {
	if r.Method == http.MethodDelete {
		g.deleteResponse(w, r, id)
		return
	}
	if stream := r.URL.Query().Get("stream"); stream != "" && stream != "false" {
		g.refuse(w, r, openai.InvalidRequest("stream", "A response can be streamed only while it is made, by POST /v1/responses; leave 'stream' out to read it."))
		return
	}
	entry, refusal := g.entry(r, id)
	if refusal != nil {
		g.refuse(w, r, refusal)
		return
	}
	entry.Release() // a client may take its time
	_ = g.respond(w, r, http.StatusOK, entry.Response)
}

// entry reads a response of the caller's.
func (g *Gateway) entry(r *http.Request, id string) (*responsestore.Entry, *openai.Error) {
	if g.opts.Responses == nil || !responsestore.ValidID(id) {
		return nil, openai.ResponseNotFound(id)
	}
	// Those that run come first: one is in the store before it is not among them
	// any more.
	if entry := g.running.entry(g.opts.User(r), id); entry != nil {
		return entry, nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), storeTimeout)
	defer cancel()
	entry, err := g.opts.Responses.Get(ctx, g.opts.User(r), id)
	return entry, g.notStored(r, id, err)
}

// notStored tells why a response was not found.
func (g *Gateway) notStored(r *http.Request, id string, err error) *openai.Error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, responsestore.ErrNotFound):
		return openai.ResponseNotFound(id)
	}
	return g.storeFailed(r, err)
}

// deleteResponse forgets a response. One that goes on is cancelled first.
func (g *Gateway) deleteResponse(w http.ResponseWriter, r *http.Request, id string) {
	if g.opts.Responses == nil || !responsestore.ValidID(id) {
		g.refuse(w, r, openai.ResponseNotFound(id))
		return
	}
	if one := g.running.find(g.opts.User(r), id); one != nil && one.wire.request.Stored() {
		if _, err := g.running.stop(r.Context(), one); err != nil {
			g.refuse(w, r, openai.FromFailure(err))
			return
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), storeTimeout)
	defer cancel()
	if err := g.opts.Responses.Delete(ctx, g.opts.User(r), id); err != nil {
		g.refuse(w, r, g.notStored(r, id, err))
		return
	}
	_ = g.respond(w, r, http.StatusOK, openai.ResponseDeleted(id))
}

// InputItems serves GET /v1/responses/{id}/input_items.
func (g *Gateway) InputItems(w http.ResponseWriter, r *http.Request, id string) {
	page, refusal := openai.ReadPage(r.URL.Query())
	if refusal != nil {
		g.refuse(w, r, refusal)
		return
	}
	entry, refusal := g.entry(r, id)
	if refusal != nil {
		g.refuse(w, r, refusal)
		return
	}
	list, refusal := openai.ItemList(entry.Input, page)
	entry.Release()
	if refusal != nil {
		g.refuse(w, r, refusal)
		return
	}
	_ = g.respond(w, r, http.StatusOK, list)
}

// CancelResponse serves POST /v1/responses/{id}/cancel.
func (g *Gateway) CancelResponse(w http.ResponseWriter, r *http.Request, id string) {
	one := g.running.find(g.opts.User(r), id)
	if one == nil {
		entry, refusal := g.entry(r, id)
		if refusal == nil {
			entry.Release()
			refusal = openai.NotCancellable(id)
		}
		g.refuse(w, r, refusal)
		return
	}
	response, err := g.running.stop(r.Context(), one)
	switch {
	case err != nil:
		g.refuse(w, r, openai.FromFailure(err))
	case response == nil: // it had not begun
		g.refuse(w, r, openai.ResponseNotFound(id))
	default:
		_ = g.respond(w, r, http.StatusOK, response)
	}
}
