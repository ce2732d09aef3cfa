package responsestore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// MissingError is the error for a response that a chain lacks, or for an item that a
// reference names.
type MissingError struct{ ID string }

// Error implements error.
func (e *MissingError) Error() string { return fmt.Sprintf("%.64q: %v", e.ID, ErrNotFound) }

// Unwrap returns ErrNotFound.
func (e *MissingError) Unwrap() error { return ErrNotFound }

const (
	// maxChain bounds the responses of a chain.
	maxChain = 1024
	// leastRead is the number of bytes of entries that every request may read. An
	// entry has more than its items: its response repeats instructions and tools.
	leastRead = 128 << 20
)

// Reader reads the items of a user for one request. It holds one entry at a time and
// copies the wanted items. The bytes that it reads and the bytes that it copies are
// bounded, since a short request can name much. It is not safe for concurrent use.
type Reader struct {
	store Store
	user  string
	read  int64 // bytes of entries that may still be read
	keep  int64 // bytes of items that may still be copied
	claim func(bytes int64) bool
}

// NewReader returns a Reader of at most maxBytes of items. It calls claim before it
// copies items; claim reports whether there is memory for this number of bytes.
func NewReader(s Store, user string, maxBytes int64, claim func(bytes int64) bool) *Reader {
	return &Reader{store: s, user: user, read: max(leastRead, 2*maxBytes), keep: maxBytes, claim: claim}
}

// get reads an entry, which the caller releases.
func (r *Reader) get(ctx context.Context, id string) (*Entry, error) {
	if ctx.Err() != nil { // not every store checks
		return nil, unavailable(context.Cause(ctx))
	}
	e, err := r.store.Get(ctx, r.user, id)
	if errors.Is(err, ErrNotFound) {
		return nil, &MissingError{id}
	}
	if err != nil {
		return nil, err
	}
	if e.Running { // half a response cannot be continued
		e.Release()
		return nil, &MissingError{id}
	}
	if r.read -= e.Size(); r.read < 0 {
		e.Release()
		return nil, ErrTooLong
	}
	return e, nil
}

// take counts an item that is returned a number of times.
func (r *Reader) take(item json.RawMessage, times int) error {
	size := int64(len(item)) * int64(times)
	if r.keep -= size; r.keep < 0 {
		return ErrTooLong
	}
	if !r.claim(size) {
		return ErrNoMemory
	}
	return nil
}

// Chain returns the items of a response and of those that it follows, oldest first: the input and
// then the output of each. The error is a *MissingError if a response is gone, ErrTooLong if there
// are more responses or bytes than may be read, and ErrNoMemory if there is no memory for them.
func (r *Reader) Chain(ctx context.Context, id string) ([]json.RawMessage, error) {
	var chain [][]json.RawMessage // the last response first
	for links := 0; id != ""; links++ {
		if links == maxChain {
			return nil, ErrTooLong
		}
		e, err := r.get(ctx, id)
		if err != nil {
			return nil, err
		}
		if e.Conversation != "" { // what precedes it is there
			e.Release()
			return nil, fmt.Errorf("%w: %s", ErrInConversation, e.Conversation)
		}
		var items []json.RawMessage
		for item := range e.Items() {
			if err = r.take(item, 1); err != nil {
				break
			}
			items = append(items, slices.Clone(item))
		}
		id, chain = e.Previous, append(chain, items)
		e.Release()
		if err != nil {
			return nil, err
		}
	}
	slices.Reverse(chain)
	return slices.Concat(chain...), nil
}

// Reference names an item of a response.
type Reference struct{ Response, Item string }

// Items returns the items of references by their ids, which idOf reads. An item counts as often as
// it is named. The error is a *MissingError for an item that does not exist, ErrTooLong if they
// have more bytes than may be read, and ErrNoMemory if there is no memory for them.
func (r *Reader) Items(ctx context.Context, named []Reference, idOf func(json.RawMessage) string) (map[string]json.RawMessage, error) {
	times := make(map[string]map[string]int) // how often an item is named, by response
	for _, n := range named {
		if times[n.Response] == nil {
			times[n.Response] = make(map[string]int)
		}
		times[n.Response][n.Item]++
	}
	found := make(map[string]json.RawMessage)
	for _, response := range slices.Sorted(maps.Keys(times)) {
		if err := r.itemsOf(ctx, response, times[response], idOf, found); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// itemsOf finds items of one response, each of which is named a number of times.
func (r *Reader) itemsOf(ctx context.Context, response string, times map[string]int, idOf func(json.RawMessage) string, found map[string]json.RawMessage) error {
	e, err := r.get(ctx, response)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	if err == nil {
		defer e.Release()
		for item := range e.Items() {
			id := idOf(item)
			if times[id] == 0 {
				continue
			}
			if err := r.take(item, times[id]); err != nil {
				return err
			}
			found[id] = slices.Clone(item)
			delete(times, id)
		}
	}
	if len(times) > 0 {
		return &MissingError{slices.Min(slices.Collect(maps.Keys(times)))}
	}
	return nil
}
