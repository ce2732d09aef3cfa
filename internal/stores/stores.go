// Package stores has the interfaces of engines that store responses and conversations.
//
// An engine is a [Store]. If other processes share the store, it may also be a [Background]. Any store
// may also be a [Chains], a [Parts] and a [Failing].
package stores

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// Failing is a [Store] that knows whether it works: it can be read and changed. `/readyz`, the
// metrics and `/codex/status` report that.
type Failing interface {
	Fails() bool
}

// Store keeps entries by the ids of their responses and conversations. The ids begin with `resp_` and
// `conv_`, have at most 64 lower-case letters, digits and `_`, and sort by the time at which they
// were made.
//
// A Store is safe for concurrent use. Each method happens as a whole or not at all, even if several
// nodes call it at the same time. After a method has returned without an error, its effect lasts as
// long as the store does. Each context has a deadline. An error wraps [ErrNotFound] if the entry does
// not exist, is another user's, or is too old. It wraps [ErrUnavailable] if the store does not work.
// A store that does not work must not return ErrNotFound: clients would forget the response.
//
// A store bounds its size, and gives each user a share: no user may push out another user's entries.
// When there is no room, the oldest or the least recently used entries of a user are dropped.
type Store interface {
	// Put stores an entry, and replaces an entry with the same id. For a conversation, Input has
	// its items. The error is ErrTooLarge if the entry does not fit; an entry of more than
	// [MaxEntry] bytes never fits. The error is ErrEnded if another owner has begun the response,
	// see [Background].
	Put(ctx context.Context, id string, e *Entry) error
	// Get returns an entry of a user. The caller must release the entry and must not change it.
	Get(ctx context.Context, user, id string) (*Entry, error)
	// Delete deletes an entry of a user, with all that belongs to it.
	Delete(ctx context.Context, user, id string) error

	// Append adds items to a conversation. If several callers append at the same time, all items are
	// added, none twice, and the items of each caller stay together. The error is ErrTooLarge if the
	// items do not fit.
	Append(ctx context.Context, user, id string, items []json.RawMessage) error
	// RemoveItem removes an item of a conversation. item is its JSON, as the store has returned it.
	RemoveItem(ctx context.Context, user, id string, item json.RawMessage) error
	// SetObject replaces the object of a conversation.
	SetObject(ctx context.Context, user, id string, object json.RawMessage) error
}

// Chains is a [Store] that reads many links of a chain in one round trip. From any other store, the
// entries of a chain are read one by one.
type Chains interface {
	Store
	// Chain returns a response and the responses before it, the newest first. It stops at one that
	// does not exist or is Running, and may stop at any other, or at a conversation: next is the id
	// of what was not returned. If Chain returns nothing, next is read with Get. At the end of the
	// chain, next is empty. The error is ErrTooLong if there are more links than the argument links,
	// or more bytes in their entries than the argument bytes. release is never nil. The store may
	// count the memory of the items until release is called, so the caller must count this memory
	// itself before it calls release.
	Chain(ctx context.Context, user, id string, links int, bytes int64) (found []Link, next string, release func(), err error)
}

// Parts is a [Store] that can read a part of an entry without the rest.
type Parts interface {
	Store
	// GetPart returns an entry of a user without its Output. Its Input has all items of a conversation
	// that contain the text, and perhaps others, in their order. If the text is empty, no items are
	// needed. The caller must release the entry and must not change it.
	GetPart(ctx context.Context, user, id, text string) (*Entry, error)
}

// GetPart returns what [Parts] says of an entry or, from any other store, the whole entry.
func GetPart(ctx context.Context, s Store, user, id, text string) (*Entry, error) {
	if parts, ok := s.(Parts); ok {
		return parts.GetPart(ctx, user, id, text)
	}
	return s.Get(ctx, user, id)
}

// Link is a response of a chain, or a conversation.
type Link struct {
	ID           string
	Conversation string            // the id of the conversation that the response belongs to, if any
	Items        []json.RawMessage // as the next request needs them; the caller owns the slice
}

// The errors of stores.
var (
	ErrNotFound    = errors.New("there is no such response")
	ErrTooLarge    = errors.New("the response is too large to be kept")
	ErrTooLong     = errors.New("there are too many responses before, or they are too large")
	ErrUnavailable = errors.New("the store of responses does not work")
	ErrEnded       = errors.New("the response has ended already")
	ErrDropped     = errors.New("the events are not kept any more")
)

// Unavailable returns an error that wraps err and [ErrUnavailable], or nil if err is nil.
func Unavailable(err error) error {
	if err == nil || errors.Is(err, ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}
