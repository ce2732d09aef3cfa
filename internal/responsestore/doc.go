// Package responsestore keeps the responses of the Responses API, so that they can
// be read again, deleted, and followed by others.
//
// A [Store] is bounded: [Memory] in bytes and age, [Shared] in number and age.
// An entry belongs to the user who made it; for all others it does not exist.
package responsestore

import (
	"context"
	"errors"
)

// Store keeps entries by the ids of their responses. It is safe for concurrent
// use.
type Store interface {
	// Put keeps an entry. ErrTooLarge: it does not fit. ErrUnavailable: the store
	// does not work.
	Put(ctx context.Context, id string, e *Entry) error
	// Get returns the entry of a user, which is to be released. ErrNotFound: there
	// is none, not any more, or it is another user's. ErrUnavailable: the store does
	// not work.
	Get(ctx context.Context, user, id string) (*Entry, error)
	// Delete forgets the entry of a user. The errors are those of Get.
	Delete(ctx context.Context, user, id string) error
}

// What can be wrong with an entry, or with the store.
var (
	ErrNotFound    = errors.New("there is no such response")
	ErrTooLarge    = errors.New("the response is too large to be kept")
	ErrTooLong     = errors.New("there are too many responses before, or they are too large")
	ErrNoMemory    = errors.New("there is no memory for the items")
	ErrUnavailable = errors.New("the store of responses does not work")
)
