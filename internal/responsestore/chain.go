package responsestore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// MissingError says which response a chain lacks, or which item a reference.
type MissingError struct{ ID string }

// Error names what is missing.
func (e *MissingError) Error() string { return fmt.Sprintf("%.64q: %v", e.ID, ErrNotFound) }

// Unwrap makes it an ErrNotFound.
func (e *MissingError) Unwrap() error { return ErrNotFound }

const (
	// maxChain bounds how many responses may follow each other.
	maxChain = 1024
	// leastRead is how many bytes of entries any request may read. An entry has more
	// than its items: its response repeats instructions and tools.
	leastRead = 128 << 20
)

// Reader reads the items of a user for one request. It has one entry at a time,
// of which it keeps copies of the items that are wanted. What it reads and what
// it keeps is bounded in bytes: a short request can name much. It is used by one
// goroutine.
type Reader struct {
	store Store
	user  string
	read  int64 // bytes of entries that may still be read
	keep  int64 // bytes of items that may still be returned
	claim func(bytes int64) bool
}

// NewReader returns a reader of at most maxBytes of items. claim is called
// before any are kept, and reports whether there is memory for so many bytes.
func NewReader(s Store, user string, maxBytes int64, claim func(bytes int64) bool) *Reader {
	return &Reader{store: s, user: user, read: max(leastRead, 2*maxBytes), keep: maxBytes, claim: claim}
}

// get reads an entry, which is to be released.
func (r *Reader) get(ctx context.Context, id string) (*Entry, error) {
	if ctx.Err() != nil { // not every store looks
		return nil, unavailable(context.Cause(ctx))
	}
	e, err := r.store.Get(ctx, r.user, id)
	if errors.Is(err, ErrNotFound) {
		return nil, &MissingError{id}
	}
	if err != nil {
		return nil, err
	}
	if r.read -= e.size(); r.read < 0 {
		e.Release()
		return nil, ErrTooLong
	}
	return e, nil
}

// take counts an item that is returned some times.
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

// Chain returns the items of a response and of all that it follows, the first
// one first: for each its input and its output. A chain with a link that is gone
// is a *MissingError: half a conversation is none. ErrTooLong: it has more links
// or bytes than may be read. ErrNoMemory: there is no memory for them.
func (r *Reader) Chain(ctx context.Context, id string) ([]json.RawMessage, error) {
	var chain []json.RawMessage // the last item first
	for links := 0; id != ""; links++ {
		if links == maxChain {
			return nil, ErrTooLong
		}
		e, err := r.get(ctx, id)
		if err != nil {
			return nil, err
		}
		first := len(chain)
		for item := range e.Items() {
			if err = r.take(item, 1); err != nil {
				break
			}
			chain = append(chain, slices.Clone(item))
		}
		id = e.Previous
		e.Release()
		if err != nil {
			return nil, err
		}
		slices.Reverse(chain[first:])
	}
	slices.Reverse(chain)
	return chain, nil
}

// Reference names an item of a response.
type Reference struct{ Response, Item string }

// Items returns the items that are named, by their ids, as idOf reads them. Each
// counts as often as it is named. The first that is not there is a
// *MissingError. ErrTooLong: they are more than may be read. ErrNoMemory: there is
// no memory for them.
func (r *Reader) Items(ctx context.Context, named []Reference, idOf func(json.RawMessage) string) (map[string]json.RawMessage, error) {
	named = slices.Clone(named)
	slices.SortFunc(named, func(a, b Reference) int { return strings.Compare(a.Response, b.Response) })
	found := make(map[string]json.RawMessage)
	for len(named) > 0 {
		n := 1
		for n < len(named) && named[n].Response == named[0].Response {
			n++
		}
		if err := r.itemsOf(ctx, named[:n], idOf, found); err != nil {
			return nil, err
		}
		named = named[n:]
	}
	return found, nil
}

// itemsOf finds the items that are named of one response.
func (r *Reader) itemsOf(ctx context.Context, named []Reference, idOf func(json.RawMessage) string, found map[string]json.RawMessage) error {
	times := make(map[string]int)
	for _, n := range named {
		times[n.Item]++
	}
	e, err := r.get(ctx, named[0].Response)
	if errors.Is(err, ErrNotFound) {
		return &MissingError{named[0].Item}
	}
	if err != nil {
		return err
	}
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
	for _, n := range named {
		if times[n.Item] > 0 {
			return &MissingError{n.Item}
		}
	}
	return nil
}
