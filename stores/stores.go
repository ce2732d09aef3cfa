// Package stores is for those who write an engine in which responses and conversations are
// stored: a Caddy module in the [Namespace] that is a [Module].
//
// What such a module opens is a [Store]. It may also be a [Background], if others than this process
// find what is in it, a [Chains], a [Failing] and a [Closer]. The package storestest has tests
// for all of them.
package stores

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
)

// Namespace has the modules. The last part of a module's id is what follows the option `store` of a
// Caddyfile, and `type` in JSON.
const Namespace = "http.codex.stores"

// Module is a module in the [Namespace]. Caddy provisions it before any of these methods is called; it
// should be a caddyfile.Unmarshaler, too.
type Module interface {
	// Key tells settings apart: configurations whose modules have the same id and key share a
	// store, and so a reload keeps it.
	Key() string
	// Open returns a new store, or nil to store nothing. It does not wait: this configuration may
	// never be used.
	Open(logger *slog.Logger) Store
	// Start is called with the store of this key each time a configuration begins to use it. If it
	// fails, the configuration is refused, so it should not fail for what may come later, such as
	// a server. Until then, Open may have been all that was called.
	Start(Store) error
}

// Closer is a [Store] that has something to close.
type Closer interface {
	// Pause is called when no configuration uses the store any more. Requests may still use it, for
	// as long as a response may take. It may be started again.
	Pause()
	// Close is called when nobody uses it any more.
	Close() error
}

// Failing is a [Store] that knows whether it works. `/readyz` says so.
type Failing interface {
	Fails() bool
}

// Store keeps entries by the ids of their responses and conversations, which begin with `resp_` and
// `conv_`, have at most 64 lower-case letters, digits and `_`, and are in the order of their times.
//
// It is safe for concurrent use. Each method happens as a whole or not at all, also at the same
// time at several nodes, and what has returned without an error outlives what the store outlives.
// Each has a context with a deadline. An error wraps [ErrNotFound] if the entry does not exist, is
// another user's, or is too old, and [ErrUnavailable] if the store does not work: never
// the other one, since clients forget what does not exist.
//
// A store bounds what it takes, and gives each user a share: nobody may push out what another
// has. When there is no room, the oldest or the least recently used entries of a user are dropped.
type Store interface {
	// Put stores an entry, instead of the one with its id; the input of a conversation is its
	// items. The error is ErrTooLarge if it does not fit, of more than [MaxEntry] bytes in any case,
	// and ErrEnded if the response was begun by another owner, see [Background].
	Put(ctx context.Context, id string, e *Entry) error
	// Get returns an entry of a user, which the caller releases and does not change.
	Get(ctx context.Context, user, id string) (*Entry, error)
	// Delete deletes an entry of a user, with all that belongs to it.
	Delete(ctx context.Context, user, id string) error

	// Append adds items to a conversation. What several callers append at the same time is all
	// there in the end, the items of each together and none of them twice. The error is ErrTooLarge
	// if they do not fit.
	Append(ctx context.Context, user, id string, items []json.RawMessage) error
	// RemoveItem removes an item of a conversation, which is given as it was read.
	RemoveItem(ctx context.Context, user, id string, item json.RawMessage) error
	// SetObject replaces the object of a conversation.
	SetObject(ctx context.Context, user, id string, object json.RawMessage) error
}

// Chains is a [Store] that reads a chain in one round trip. Those of others are read one by one.
type Chains interface {
	Store
	// Chain returns a response, or a conversation, and the responses that it follows, the last one
	// first. next is the id of the first one that does not exist or is Running, empty if there is none.
	// The error is ErrTooLong if there are more links, or if their entries have more bytes. The caller
	// calls release, which is never nil, once it has counted the items; until then they may count elsewhere.
	Chain(ctx context.Context, user, id string, links int, bytes int64) (found []Link, next string, release func(), err error)
}

// Link is a response of a chain, or a conversation.
type Link struct {
	ID           string
	Conversation string            // that the response belongs to, if any
	Items        []json.RawMessage // as the next request needs them; the caller's own
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

// Unavailable returns an error, if it is not nil, as one that wraps [ErrUnavailable].
func Unavailable(err error) error {
	if err == nil || errors.Is(err, ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}
