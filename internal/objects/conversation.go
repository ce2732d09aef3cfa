package objects

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/responseid"
	"github.com/caddy-codex/caddy-codex/internal/store"
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
	entry := &Entry{User: o.User(r), Response: c.Object(id, now.Unix()), Input: c.Items(suffix)}
	return o.withConversation(r, id, func(ctx context.Context) ([]byte, error) { return entry.Response, o.Store.Put(ctx, id, entry) })
}

func (o *Objects) withConversation(r *http.Request, id string, run func(context.Context) ([]byte, error)) ([]byte, *apierror.Error) {
	return o.with(r, responseid.ValidConversation(id), apierror.ConversationNotFound(id), run)
}

// Conversation returns a conversation of the caller: GET /v1/conversations/{id}.
func (o *Objects) Conversation(r *http.Request, id string, claimMemory Hold) ([]byte, *apierror.Error) {
	return o.withConversation(r, id, func(ctx context.Context) ([]byte, error) { return o.copyObject(ctx, r, id, claimMemory) })
}

// UpdateConversation replaces the metadata of a conversation: POST /v1/conversations/{id}.
func (o *Objects) UpdateConversation(r *http.Request, id string, c NewItems) ([]byte, *apierror.Error) {
	created, _ := responseid.Time(id)
	object := c.Object(id, created.Unix())
	return o.withConversation(r, id, func(ctx context.Context) ([]byte, error) {
		return object, o.Store.SetObject(ctx, o.User(r), id, object)
	})
}

// DeleteConversation deletes a conversation of the caller: DELETE /v1/conversations/{id}.
func (o *Objects) DeleteConversation(r *http.Request, id string) ([]byte, *apierror.Error) {
	return o.withConversation(r, id, func(ctx context.Context) ([]byte, error) {
		return deleted(id, "conversation.deleted"), o.Store.Delete(ctx, o.User(r), id)
	})
}

// ConversationItems returns a page of the items of a conversation:
// GET /v1/conversations/{id}/items.
func (o *Objects) ConversationItems(r *http.Request, id string, claimMemory Hold) ([]byte, *apierror.Error) {
	return o.listInput(r, id, claimMemory, o.withConversation)
}

// AddItems adds items to a conversation and returns these items:
// POST /v1/conversations/{id}/items.
func (o *Objects) AddItems(r *http.Request, id string, c NewItems, claimMemory Hold) ([]byte, *apierror.Error) {
	items := c.Items(responseid.NewSuffix(time.Now()))
	return o.withConversation(r, id, func(ctx context.Context) ([]byte, error) {
		if err := o.Store.AddItems(ctx, o.User(r), id, items); err != nil {
			return nil, err
		}
		return itemList(items, page{limit: len(items), ascending: true}, claimMemory)
	})
}

// AppendResponse appends the items of an ended response to the conversation of the same user with this id.
func (o *Objects) AppendResponse(ctx context.Context, conversation string, response *Entry) error {
	var items []json.RawMessage
	for _, item := range response.Items() {
		items = append(items, slices.Clone(item)) // without a clone, the item would keep the whole response in memory
	}
	return o.Store.AddItems(ctx, response.User, conversation, items)
}

// ConversationItem returns an item of a conversation: GET /v1/conversations/{id}/items/{item}.
func (o *Objects) ConversationItem(r *http.Request, id, item string, claimMemory Hold) ([]byte, *apierror.Error) {
	return o.withConversation(r, id, func(ctx context.Context) ([]byte, error) {
		found, _, release, err := o.Store.FindItem(ctx, o.User(r), id, item)
		defer release()
		if err != nil {
			return nil, err
		}
		return copyPart(found, claimMemory)
	})
}

// DeleteItem deletes an item of a conversation and returns the conversation:
// DELETE /v1/conversations/{id}/items/{item}.
func (o *Objects) DeleteItem(r *http.Request, id, item string) ([]byte, *apierror.Error) {
	return o.withConversation(r, id, func(ctx context.Context) ([]byte, error) {
		_, number, release, err := o.Store.FindItem(ctx, o.User(r), id, item)
		release()
		if err != nil {
			return nil, err
		}
		entry, err := o.Store.GetObject(ctx, o.User(r), id) // before the removal, so that nothing fails after it
		if err != nil {
			return nil, err
		}
		defer entry.Release()
		object := slices.Clone(entry.Response)
		err = o.Store.engine.Delete(ctx, o.User(r), id, number)
		if errors.Is(err, store.ErrNotFound) {
			return nil, apierror.ConversationItemNotFound(id, item)
		}
		return object, err
	})
}
