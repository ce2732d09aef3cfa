package responses

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// MissingError says which response a chain lacks.
type MissingError struct{ ID string }

// Error names the response.
func (e *MissingError) Error() string { return fmt.Sprintf("response %.64q: %v", e.ID, ErrNotFound) }

// Unwrap makes it an ErrNotFound.
func (e *MissingError) Unwrap() error { return ErrNotFound }

// maxChain bounds how many responses may follow each other.
const maxChain = 1024

// Reader reads the items of a user for one request. It reads each entry once,
// and no more bytes than it may: items can be named as often as one likes, and
// each time is a copy for the model. It is used by one goroutine.
type Reader struct {
	store   Store
	user    string
	left    int64 // bytes
	entries map[string]*Entry
}

// NewReader returns a reader of at most maxBytes of items.
func NewReader(s Store, user string, maxBytes int64) *Reader {
	return &Reader{store: s, user: user, left: maxBytes, entries: make(map[string]*Entry)}
}

// get reads an entry, unless it has been read already.
func (r *Reader) get(ctx context.Context, id string) (*Entry, error) {
	if e := r.entries[id]; e != nil {
		return e, nil
	}
	e, err := r.store.Get(ctx, r.user, id)
	if err == nil {
		r.entries[id] = e
	}
	return e, err
}

// take counts items.
func (r *Reader) take(bytes int) error {
	if r.left -= int64(bytes); r.left < 0 {
		return ErrTooLong
	}
	return nil
}

// Chain returns the items of a response and of all that it follows, the first
// one first: for each its input and its output. A chain with a link that is gone
// is a *MissingError: half a conversation is none. ErrTooLong: it has more links
// or bytes than may be read.
func (r *Reader) Chain(ctx context.Context, id string) ([]json.RawMessage, error) {
	var chain []*Entry
	for id != "" {
		if len(chain) == maxChain {
			return nil, ErrTooLong
		}
		e, err := r.get(ctx, id)
		if errors.Is(err, ErrNotFound) {
			return nil, &MissingError{id}
		}
		if err != nil {
			return nil, err
		}
		for item := range e.Items() {
			if err := r.take(len(item)); err != nil {
				return nil, err
			}
		}
		chain = append(chain, e)
		id = e.Previous
	}
	var items []json.RawMessage
	for i := len(chain) - 1; i >= 0; i-- {
		for item := range chain[i].Items() {
			items = append(items, item)
		}
	}
	return items, nil
}

// Item returns the item of a response for which is returns true. ErrNotFound:
// there is none. ErrTooLong: it is more than may be read.
func (r *Reader) Item(ctx context.Context, response string, is func(json.RawMessage) bool) (json.RawMessage, error) {
	e, err := r.get(ctx, response)
	if err != nil {
		return nil, err
	}
	for item := range e.Items() {
		if is(item) {
			return item, r.take(len(item))
		}
	}
	return nil, ErrNotFound
}
