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

// Room is what one request may read. It is not safe for concurrent use.
type Room struct {
	links int   // responses that may still be read in a chain
	read  int64 // bytes of entries that may still be read
	keep  int64 // bytes of items that may still be copied
	claim func(bytes int64) bool
}

// entry counts an entry that is read.
func (r *Room) entry(e *Entry) error {
	if r.read -= e.Size(); r.read < 0 {
		return ErrTooLong
	}
	return nil
}

// take counts an item that is returned a number of times.
func (r *Room) take(item int, times int) error {
	size := int64(item) * int64(times)
	if r.keep -= size; r.keep < 0 {
		return ErrTooLong
	}
	if !r.claim(size) {
		return ErrNoMemory
	}
	return nil
}

// Link copies the items of an entry.
func (r *Room) Link(ctx context.Context, id string, e *Entry) (Link, error) {
	link := Link{ID: id, Conversation: e.Conversation}
	if ctx.Err() != nil { // not every store checks
		return link, unavailable(context.Cause(ctx))
	}
	if err := r.entry(e); err != nil {
		return link, err
	}
	for item := range e.Items() {
		if err := r.take(len(item), 1); err != nil {
			return link, err
		}
		link.Items = append(link.Items, slices.Clone(item))
	}
	return link, r.linked()
}

// linked counts a link.
func (r *Room) linked() error {
	if r.links--; r.links < 0 {
		return ErrTooLong
	}
	return nil
}

// Reader reads the items of a user for one request. The bytes that it reads and the bytes that it
// copies are bounded, since a short request can name much. It is not safe for concurrent use.
type Reader struct {
	store Store
	user  string
	room  Room
}

// NewReader returns a Reader of at most maxBytes of items. It calls claim before it
// copies items; claim reports whether there is memory for this number of bytes.
func NewReader(s Store, user string, maxBytes int64, claim func(bytes int64) bool) *Reader {
	return &Reader{s, user, Room{maxChain, max(leastRead, 2*maxBytes), maxBytes, claim}}
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
	if e.Running {
		e.Release()
		return nil, &MissingError{id}
	}
	if err := r.room.entry(e); err != nil {
		e.Release()
		return nil, err
	}
	return e, nil
}

// Chain returns the items of a response and of those that it follows, oldest first: the input and
// then the output of each. The error is a *MissingError if a response is gone, ErrTooLong if there
// are more responses or bytes than may be read, and ErrNoMemory if there is no memory for them.
func (r *Reader) Chain(ctx context.Context, id string) ([]json.RawMessage, error) {
	var chain [][]json.RawMessage // the last response first
	for id != "" {                // once more for what a session has, which a store does not
		links, next, err := r.store.Chain(ctx, r.user, id, &r.room)
		if err != nil {
			return nil, err
		}
		if next == id {
			return nil, &MissingError{id}
		}
		for _, link := range links {
			if link.Conversation != "" { // what precedes it is there
				return nil, fmt.Errorf("%w: %s", ErrInConversation, link.Conversation)
			}
			chain = append(chain, link.Items)
		}
		id = next
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
			if err := r.room.take(len(item), times[id]); err != nil {
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
