package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/responseid"
	"github.com/caddy-codex/caddy-codex/internal/responses"
	"github.com/caddy-codex/caddy-codex/internal/responsestore"
)

// CreateConversation serves POST /v1/conversations.
func (g *Gateway) CreateConversation(w http.ResponseWriter, r *http.Request) {
	body, apiErr := g.createConversation(w, r)
	g.answer(w, r, body, apiErr)
}

// Conversation serves GET, POST and DELETE /v1/conversations/{id}.
func (g *Gateway) Conversation(w http.ResponseWriter, r *http.Request, id string) {
	var body []byte
	var apiErr *apierror.Error
	switch r.Method {
	case http.MethodPost:
		body, apiErr = g.updateConversation(w, r, id)
	case http.MethodDelete:
		body, apiErr = g.deleteConversation(r, id)
	default:
		body, apiErr = g.readConversation(r, id, func(e *responsestore.Entry) ([]byte, *apierror.Error) { return e.Response, nil })
	}
	g.answer(w, r, body, apiErr)
}

// ConversationItems serves GET and POST /v1/conversations/{id}/items.
func (g *Gateway) ConversationItems(w http.ResponseWriter, r *http.Request, id string) {
	list := g.listItems
	if r.Method == http.MethodPost {
		list = func(r *http.Request, id string) ([]byte, *apierror.Error) { return g.addItems(w, r, id) }
	}
	body, apiErr := list(r, id)
	g.answer(w, r, body, apiErr)
}

// ConversationItem serves GET and DELETE /v1/conversations/{id}/items/{item}.
func (g *Gateway) ConversationItem(w http.ResponseWriter, r *http.Request, id, item string) {
	read := g.readItem
	if r.Method == http.MethodDelete {
		read = g.deleteItem
	}
	body, apiErr := read(r, id, item)
	g.answer(w, r, body, apiErr)
}

// conversationBody reads and decodes the body of a request about a conversation, and passes
// it to use.
func (g *Gateway) conversationBody(w http.ResponseWriter, r *http.Request, required string, use func(*responses.ConversationRequest) ([]byte, *apierror.Error)) ([]byte, *apierror.Error) {
	x := g.newExchange(w, r)
	x.body = g.bodies.Claim()
	defer x.body.Release()
	body, apiErr := g.readBody(r.Context(), x)
	if apiErr != nil {
		return nil, apiErr
	}
	decoded, apiErr := responses.DecodeConversation(body, required)
	if apiErr != nil {
		return nil, apiErr
	}
	return use(decoded)
}

func (g *Gateway) createConversation(w http.ResponseWriter, r *http.Request) ([]byte, *apierror.Error) {
	if g.opts.Responses == nil {
		return nil, apierror.NoStore("conversation")
	}
	return g.conversationBody(w, r, "", func(c *responses.ConversationRequest) ([]byte, *apierror.Error) {
		now := time.Now()
		suffix := responseid.NewSuffix(now)
		id := responseid.ConversationPrefix + suffix
		entry := &responsestore.Entry{User: g.opts.User(r), Response: c.Object(id, now.Unix()), Input: c.Items(suffix)}
		ctx, cancel := context.WithTimeout(r.Context(), storeTimeout)
		defer cancel()
		if err := g.opts.Responses.Put(ctx, id, entry); err != nil {
			return nil, g.conversationFailed(r, id, err)
		}
		return entry.Response, nil
	})
}

// readConversation reads a conversation of the caller and passes it to use.
func (g *Gateway) readConversation(r *http.Request, id string, use func(*responsestore.Entry) ([]byte, *apierror.Error)) ([]byte, *apierror.Error) {
	if g.opts.Responses == nil || !responseid.ValidConversation(id) {
		return nil, apierror.ConversationNotFound(id)
	}
	ctx, cancel := context.WithTimeout(r.Context(), storeTimeout)
	defer cancel()
	entry, err := g.opts.Responses.Get(ctx, g.opts.User(r), id)
	if err != nil {
		return nil, g.conversationFailed(r, id, err)
	}
	defer entry.Release()
	return use(entry)
}

// changeConversation changes a conversation of the caller and returns it.
func (g *Gateway) changeConversation(r *http.Request, id string, change func(*responsestore.Entry) *apierror.Error) ([]byte, *apierror.Error) {
	if g.opts.Responses == nil || !responseid.ValidConversation(id) {
		return nil, apierror.ConversationNotFound(id)
	}
	ctx, cancel := context.WithTimeout(r.Context(), storeTimeout)
	defer cancel()
	var body []byte
	err := g.opts.Responses.Update(ctx, g.opts.User(r), id, func(e responsestore.Entry) (*responsestore.Entry, error) {
		if apiErr := change(&e); apiErr != nil {
			return nil, apiErr
		}
		body = e.Response
		return &e, nil
	})
	if err != nil {
		return nil, g.conversationFailed(r, id, err)
	}
	return body, nil
}

func (g *Gateway) updateConversation(w http.ResponseWriter, r *http.Request, id string) ([]byte, *apierror.Error) {
	return g.conversationBody(w, r, "metadata", func(c *responses.ConversationRequest) ([]byte, *apierror.Error) {
		return g.changeConversation(r, id, func(e *responsestore.Entry) *apierror.Error {
			e.Response = c.Object(id, gjson.GetBytes(e.Response, "created_at").Int())
			return nil
		})
	})
}

func (g *Gateway) deleteConversation(r *http.Request, id string) ([]byte, *apierror.Error) {
	if g.opts.Responses == nil || !responseid.ValidConversation(id) {
		return nil, apierror.ConversationNotFound(id)
	}
	ctx, cancel := context.WithTimeout(r.Context(), storeTimeout)
	defer cancel()
	if err := g.opts.Responses.Delete(ctx, g.opts.User(r), id); err != nil {
		return nil, g.conversationFailed(r, id, err)
	}
	return responses.DeletedConversation(id), nil
}

func (g *Gateway) listItems(r *http.Request, id string) ([]byte, *apierror.Error) {
	page, apiErr := responses.ReadPage(r.URL.Query())
	if apiErr != nil {
		return nil, apiErr
	}
	return g.readConversation(r, id, func(e *responsestore.Entry) ([]byte, *apierror.Error) { return responses.ItemList(e.Input, page) })
}

func (g *Gateway) addItems(w http.ResponseWriter, r *http.Request, id string) ([]byte, *apierror.Error) {
	return g.conversationBody(w, r, "items", func(c *responses.ConversationRequest) ([]byte, *apierror.Error) {
		added := c.Items(responseid.NewSuffix(time.Now()))
		_, apiErr := g.changeConversation(r, id, func(e *responsestore.Entry) *apierror.Error {
			e.Input = slices.Concat(e.Input, added)
			return nil
		})
		if apiErr != nil {
			return nil, apiErr
		}
		return responses.Added(added)
	})
}

func (g *Gateway) readItem(r *http.Request, id, item string) ([]byte, *apierror.Error) {
	return g.readConversation(r, id, func(e *responsestore.Entry) ([]byte, *apierror.Error) {
		at := responses.FindItem(e.Input, item)
		if at < 0 {
			return nil, apierror.ConversationItemNotFound(id, item)
		}
		return e.Input[at], nil
	})
}

func (g *Gateway) deleteItem(r *http.Request, id, item string) ([]byte, *apierror.Error) {
	return g.changeConversation(r, id, func(e *responsestore.Entry) *apierror.Error {
		at := responses.FindItem(e.Input, item)
		if at < 0 {
			return apierror.ConversationItemNotFound(id, item)
		}
		e.Input = slices.Delete(slices.Clone(e.Input), at, at+1)
		return nil
	})
}

// conversationFailed returns why a conversation could not be used.
func (g *Gateway) conversationFailed(r *http.Request, id string, err error) *apierror.Error {
	if apiErr, ok := errors.AsType[*apierror.Error](err); ok {
		return apiErr
	}
	switch {
	case errors.Is(err, responsestore.ErrNotFound):
		return apierror.ConversationNotFound(id)
	case errors.Is(err, responsestore.ErrTooLarge):
		return apierror.ConversationTooLong()
	}
	return g.storeFailed(r.Context(), r, err)
}

// appendTo appends the input and the output of the response that has just ended to its
// conversation.
func (f *responseForm) appendTo(ctx context.Context, id string) {
	var items []json.RawMessage
	for item := range f.entry.Items() {
		items = append(items, slices.Clone(item)) // else the whole response is held
	}
	err := f.g.opts.Responses.Update(ctx, f.x.user, id, func(e responsestore.Entry) (*responsestore.Entry, error) {
		e.Input = slices.Concat(e.Input, items)
		return &e, nil
	})
	if err != nil {
		f.g.opts.Logger.LogAttrs(ctx, slog.LevelWarn, "a response could not be added to its conversation",
			slog.String("request_id", requestID(f.x.r)),
			slog.String("response", f.meta.ID),
			slog.String("error", err.Error()))
	}
}
