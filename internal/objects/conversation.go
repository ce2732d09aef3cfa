package objects

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/responseid"
	"github.com/caddy-codex/caddy-codex/internal/stores"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// NewItems is a checked request that creates a conversation, changes its metadata or adds items.
type NewItems interface {
	// Object returns the conversation that the request makes. created is in Unix seconds.
	Object(id string, created int64) json.RawMessage
	// Items returns the items as they are stored. Their ids have this suffix.
	Items(suffix string) []json.RawMessage
}

// CreateConversation creates a conversation: POST /v1/conversations.
func (o *Objects) CreateConversation(r *http.Request, c NewItems) ([]byte, *apierror.Error) {
	if o.Store == nil {
		return nil, apierror.NoStore("conversation")
	}
	now := time.Now()
	suffix := responseid.NewSuffix(now)
	id := responseid.ConversationPrefix + suffix
	entry := &stores.Entry{User: o.User(r), Response: c.Object(id, now.Unix()), Input: c.Items(suffix)}
	apiErr := o.withConversation(r, id, func(ctx context.Context) error { return o.Store.Put(ctx, id, entry) })
	return entry.Response, apiErr
}

// withConversation checks that an id has the form of a conversation's id, and calls run with a
// context that ends after StoreTimeout. It converts the error of run to an API error.
func (o *Objects) withConversation(r *http.Request, id string, run func(context.Context) error) *apierror.Error {
	if o.Store == nil || !responseid.ValidConversation(id) {
		return apierror.ConversationNotFound(id)
	}
	ctx, cancel := withStoreTimeout(r.Context())
	defer cancel()
	return o.apiError(r, run(ctx), apierror.ConversationNotFound(id))
}

// readConversation reads a conversation of the caller, or a part of it, and passes it to answer.
func (o *Objects) readConversation(r *http.Request, id string, read reader, answer func(*stores.Entry) ([]byte, *apierror.Error)) (body []byte, apiErr *apierror.Error) {
	var answerErr *apierror.Error
	apiErr = o.withConversation(r, id, func(ctx context.Context) error {
		entry, err := read(ctx, o.User(r), id)
		if err == nil {
			defer entry.Release()
			body, answerErr = answer(entry)
		}
		return err
	})
	return body, cmp.Or(apiErr, answerErr)
}

// Conversation returns a conversation of the caller: GET /v1/conversations/{id}.
func (o *Objects) Conversation(r *http.Request, id string, claimMemory Hold) ([]byte, *apierror.Error) {
	return o.readConversation(r, id, o.part(""), func(e *stores.Entry) ([]byte, *apierror.Error) { return copyPart(e.Response, claimMemory) })
}

// UpdateConversation replaces the metadata of a conversation: POST /v1/conversations/{id}.
func (o *Objects) UpdateConversation(r *http.Request, id string, c NewItems) ([]byte, *apierror.Error) {
	created, _ := responseid.Time(id)
	object := c.Object(id, created.Unix())
	return object, o.withConversation(r, id, func(ctx context.Context) error {
		return o.Store.SetObject(ctx, o.User(r), id, object)
	})
}

// DeleteConversation deletes a conversation of the caller: DELETE /v1/conversations/{id}.
func (o *Objects) DeleteConversation(r *http.Request, id string) ([]byte, *apierror.Error) {
	return deleted(id, "conversation.deleted"), o.withConversation(r, id, func(ctx context.Context) error {
		return o.Store.Delete(ctx, o.User(r), id)
	})
}

// ConversationItems returns a page of the items of a conversation:
// GET /v1/conversations/{id}/items.
func (o *Objects) ConversationItems(r *http.Request, id string, claimMemory Hold) ([]byte, *apierror.Error) {
	page, apiErr := readPage(r.URL.Query())
	if apiErr != nil {
		return nil, apiErr
	}
	return o.readConversation(r, id, o.whole, func(e *stores.Entry) ([]byte, *apierror.Error) {
		return itemList(e.Input, page, claimMemory)
	})
}

// AddItems adds items to a conversation and returns these items:
// POST /v1/conversations/{id}/items.
func (o *Objects) AddItems(r *http.Request, id string, c NewItems, claimMemory Hold) ([]byte, *apierror.Error) {
	items := c.Items(responseid.NewSuffix(time.Now()))
	apiErr := o.withConversation(r, id, func(ctx context.Context) error {
		return o.Store.Append(ctx, o.User(r), id, items)
	})
	if apiErr != nil {
		return nil, apiErr
	}
	return addedList(items, claimMemory)
}

// AppendResponse appends the items of an ended response to a conversation of the same user. The
// parameter conversation is the id of the conversation.
func (o *Objects) AppendResponse(ctx context.Context, conversation string, response *stores.Entry) error {
	var items []json.RawMessage
	for item := range response.Items() {
		items = append(items, slices.Clone(item)) // without a clone, the item would keep the whole response in memory
	}
	return o.Store.Append(ctx, response.User, conversation, items)
}

// ConversationItem returns an item of a conversation: GET /v1/conversations/{id}/items/{item}.
func (o *Objects) ConversationItem(r *http.Request, id, item string, claimMemory Hold) ([]byte, *apierror.Error) {
	return o.readConversation(r, id, o.part(string(wirejson.AppendString(nil, item))), func(e *stores.Entry) ([]byte, *apierror.Error) {
		at := findItem(e.Input, item)
		if at < 0 {
			return nil, apierror.ConversationItemNotFound(id, item)
		}
		return copyPart(e.Input[at], claimMemory)
	})
}

// DeleteItem deletes an item of a conversation and returns the conversation:
// DELETE /v1/conversations/{id}/items/{item}.
func (o *Objects) DeleteItem(r *http.Request, id, item string) (object []byte, _ *apierror.Error) {
	missing := apierror.ConversationItemNotFound(id, item)
	var found json.RawMessage
	object, apiErr := o.readConversation(r, id, o.part(string(wirejson.AppendString(nil, item))), func(e *stores.Entry) ([]byte, *apierror.Error) {
		at := findItem(e.Input, item)
		if at < 0 {
			return nil, missing
		}
		found = slices.Clone(e.Input[at])
		return slices.Clone(e.Response), nil
	})
	if apiErr != nil {
		return nil, apiErr
	}
	ctx, cancel := withStoreTimeout(r.Context())
	defer cancel()
	return object, o.apiError(r, o.Store.RemoveItem(ctx, o.User(r), id, found), missing)
}
