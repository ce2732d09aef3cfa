// Package responses keeps the responses of the Responses API, so that they can
// be read again, deleted, and followed by others.
//
// A [Store] is bounded: [Memory] in bytes and age, [Shared] in age. An entry
// belongs to the user who made it; for all others it does not exist.
package responses

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// Entry is one response that is kept. It must not be changed once it is stored,
// nor may one that was read.
type Entry struct {
	// User is who made it; empty if nobody was authenticated.
	User string `json:"user"`
	// Previous is the id of the response that it follows; empty: none.
	Previous string `json:"previous,omitempty"`
	// Response is the Response object, as its client got it.
	Response json.RawMessage `json:"response"`
	// Input are the items of its own input, each with an id.
	Input []json.RawMessage `json:"input"`
	// Output are its items as the next response needs them.
	Output []json.RawMessage `json:"output"`
}

// size is about what an entry holds in memory.
func (e *Entry) size() int64 {
	size := len(e.User) + len(e.Previous) + len(e.Response) + 256
	for _, items := range [][]json.RawMessage{e.Input, e.Output} {
		for _, item := range items {
			size += len(item) + 24
		}
	}
	return int64(size)
}

// Store keeps entries by the ids of their responses. It is safe for concurrent
// use.
type Store interface {
	// Put keeps an entry. ErrTooLarge: it does not fit.
	Put(ctx context.Context, id string, e *Entry) error
	// Get returns the entry of a user. ErrNotFound: there is none, not any more, or
	// it is another user's.
	Get(ctx context.Context, user, id string) (*Entry, error)
	// Delete forgets the entry of a user. The errors are those of Get.
	Delete(ctx context.Context, user, id string) error
}

// What can be wrong with an entry.
var (
	ErrNotFound = errors.New("there is no such response")
	ErrTooLarge = errors.New("the response is too large to be kept")
	ErrTooLong  = errors.New("there are too many responses before, or they are too large")
)

// The form of an id: a prefix, and letters and digits, so that an id can be part
// of a path.
const (
	idPrefix = "resp_"
	idLength = 26 // without the prefix
)

// ValidID reports whether a text has the form of a response's id.
func ValidID(id string) bool {
	if len(id) != len(idPrefix)+idLength || id[:len(idPrefix)] != idPrefix {
		return false
	}
	for _, b := range []byte(id[len(idPrefix):]) {
		if (b < 'a' || b > 'z') && (b < '0' || b > '9') {
			return false
		}
	}
	return true
}

// MissingError says which response a chain lacks.
type MissingError struct{ ID string }

// Error names the response.
func (e *MissingError) Error() string { return fmt.Sprintf("response %.64q: %v", e.ID, ErrNotFound) }

// Unwrap makes it an ErrNotFound.
func (e *MissingError) Unwrap() error { return ErrNotFound }

// maxChain bounds how many responses may follow each other.
const maxChain = 1024

// Chain returns the items of a response and of all that it follows, the first
// one first: for each its input and its output. maxBytes bounds their sum. A
// chain with a link that is gone is a *MissingError: half a conversation is
// none.
func Chain(ctx context.Context, s Store, user, id string, maxBytes int64) ([]json.RawMessage, error) {
	var chain []*Entry
	var size int64
	for id != "" {
		if len(chain) == maxChain {
			return nil, ErrTooLong
		}
		e, err := s.Get(ctx, user, id)
		if errors.Is(err, ErrNotFound) {
			return nil, &MissingError{id}
		}
		if err != nil {
			return nil, err
		}
		if size += e.size(); size > maxBytes {
			return nil, ErrTooLong
		}
		chain = append(chain, e)
		id = e.Previous
	}
	var items []json.RawMessage
	for i := len(chain) - 1; i >= 0; i-- {
		items = append(items, chain[i].Input...)
		items = append(items, chain[i].Output...)
	}
	return items, nil
}
