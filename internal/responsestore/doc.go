// Package responsestore stores the responses of the Responses API, so that clients
// can read and delete them and continue from them.
//
// A [Store] is bounded: [Memory] in bytes and age, [Shared] in number and age. An
// entry belongs to the user who made the request and does not exist for others.
package responsestore

import (
	"context"
	"errors"
)

// Store keeps entries by the ids of their responses. It is safe for concurrent
// use.
type Store interface {
	// Put stores an entry. The error is ErrTooLarge if it does not fit, and
	// ErrUnavailable if the store does not work.
	Put(ctx context.Context, id string, e *Entry) error
	// Get returns an entry of a user, which the caller releases. The error is
	// ErrNotFound if there is none or it is another user's, and ErrUnavailable if
	// the store does not work.
	Get(ctx context.Context, user, id string) (*Entry, error)
	// Delete deletes an entry of a user. The errors are those of Get.
	Delete(ctx context.Context, user, id string) error
	// Update replaces the entry of a user by what change makes of it. Updates of one entry
	// happen one after the other, on all nodes. The errors are those of Get, Put and change.
	Update(ctx context.Context, user, id string, change func(Entry) (*Entry, error)) error
}

// The errors of stores and readers.
var (
	ErrNotFound       = errors.New("there is no such response")
	ErrTooLarge       = errors.New("the response is too large to be kept")
	ErrTooLong        = errors.New("there are too many responses before, or they are too large")
	ErrNoMemory       = errors.New("there is no memory for the items")
	ErrInConversation = errors.New("the response belongs to a conversation")
	ErrUnavailable    = errors.New("the store of responses does not work")
)
