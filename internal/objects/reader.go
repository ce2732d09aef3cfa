package objects

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/caddy-codex/caddy-codex/internal/responseid"
	"github.com/caddy-codex/caddy-codex/internal/store"
)

// MissingError means that a response of a chain, or an item to which a request refers, does not
// exist. ID is the id of the response or item.
type MissingError struct{ ID string }

// Error implements error.
func (e *MissingError) Error() string { return fmt.Sprintf("%.64q: %v", e.ID, store.ErrNotFound) }

// Unwrap returns ErrNotFound.
func (e *MissingError) Unwrap() error { return store.ErrNotFound }

// The errors of readers, besides those of stores.
var (
	ErrTooLong        = errors.New("there are too many responses before, or they are too large")
	ErrNoMemory       = errors.New("there is no memory for the items")
	ErrInConversation = errors.New("the response belongs to a conversation")
)

const (
	// maxChain bounds the responses of a chain.
	maxChain = 1024
	// leastRead is how many bytes of entries a request may always read, even if it may copy far
	// fewer. It is large, since the response in an entry repeats instructions and tools.
	leastRead = 128 << 20
)

// Reader reads the items of a user for one request. It bounds the bytes that it reads and the bytes
// that it copies, since a short request can refer to many large entries. It must not be used
// concurrently.
type Reader struct {
	store *Store // nil: there is none
	user  string

	linksLeft   int   // responses that may still be read in a chain
	readLeft    int64 // bytes of entries that may still be read
	copyLeft    int64 // bytes of items that may still be copied
	claimMemory func(bytes int64) bool

	// Begin returns the index of an item that replaces all before it, and with which the chain begins, or -1.
	// Nil: there is no such item.
	Begin func(items []json.RawMessage) int
	begun bool // the link read last has such an item

	extraID    string // see With
	extraEntry *Entry
}

// NewReader returns a Reader that copies at most maxBytes of items. The Reader calls claimMemory
// before it copies items; claimMemory reports whether there is memory for this number of bytes.
func NewReader(s *Store, user string, maxBytes int64, claimMemory func(bytes int64) bool) *Reader {
	return &Reader{store: s, user: user, linksLeft: maxChain, readLeft: max(leastRead, 2*maxBytes), copyLeft: maxBytes, claimMemory: claimMemory}
}

// With makes the reader find an entry that the store does not have: e, with this id.
func (r *Reader) With(id string, e *Entry) { r.extraID, r.extraEntry = id, e }

// claimItem claims memory for the copies of an item. item is the size of the item in bytes, and times is
// how often the request refers to the item. The error is ErrTooLong or ErrNoMemory.
func (r *Reader) claimItem(item int, times int) error {
	size := int64(item) * int64(times)
	if r.copyLeft -= size; r.copyLeft < 0 {
		return ErrTooLong
	}
	if !r.claimMemory(size) {
		return ErrNoMemory
	}
	return nil
}

func (r *Reader) getEntry(ctx context.Context, id string) (e *Entry, err error) {
	switch {
	case ctx.Err() != nil: // not every store checks ctx
		return nil, store.Unavailable(context.Cause(ctx))
	case r.extraEntry != nil && id == r.extraID:
		e = r.extraEntry
	case r.store == nil:
		return nil, &MissingError{id}
	default:
		e, err = r.store.Get(ctx, r.user, id)
	}
	if errors.Is(err, store.ErrNotFound) || err == nil && e.Running { // no response can follow a running one
		if err == nil {
			e.Release()
		}
		return nil, &MissingError{id}
	}
	if err != nil {
		return nil, err
	}
	if r.readLeft -= e.Size(); r.readLeft < 0 {
		e.Release()
		return nil, ErrTooLong
	}
	return e, nil
}

// Chain returns the items of a response and of the responses that it follows, oldest first: the
// input and then the output of each. Of a conversation, it returns the items. The error is a
// *MissingError if a response does not exist, ErrInConversation if one belongs to a conversation,
// ErrTooLong if there are more responses or bytes than may be read, and ErrNoMemory if there is no
// memory for the items.
func (r *Reader) Chain(ctx context.Context, id string) ([]json.RawMessage, error) {
	var chain [][]json.RawMessage // the last response first
	for id != "" {
		links, next, err := r.readLinks(ctx, id)
		if err != nil {
			return nil, err
		}
		chain, id = append(chain, links...), next
	}
	slices.Reverse(chain)
	return slices.Concat(chain...), nil
}

// readLinks returns the items of the first links (responses) of the chain that begins with id, and the id
// of the next link, or "" if there is none. It reads as many links as the store returns at once. If the
// store returns only a part of the first link, readLinks reads this link alone.
func (r *Reader) readLinks(ctx context.Context, id string) (links [][]json.RawMessage, next string, err error) {
	if ctx.Err() != nil || r.store == nil || r.extraEntry != nil && id == r.extraID {
		return r.readLink(ctx, id)
	}
	pages, err := r.store.engine.Read(ctx, r.user, id, store.Query{Part: store.Items, Limit: min(store.FreeTransfer, r.readLeft), Links: r.linksLeft})
	if errors.Is(err, store.ErrNotFound) {
		return nil, "", &MissingError{id}
	}
	if err != nil {
		return nil, "", err
	}
	next = id
	for _, page := range pages {
		conversation, items, ok := r.store.decode(page)
		if !ok || int64(len(page.Records)) < page.Next { // a part of the link is missing
			break
		}
		for _, item := range items {
			r.readLeft -= int64(len(item))
		}
		if items, err = r.claimLink(conversation, items); err != nil {
			return nil, "", err
		}
		if links, next = append(links, items), page.Link; r.begun {
			return links, "", nil
		}
	}
	if len(links) == 0 {
		return r.readLink(ctx, id)
	}
	return links, next, nil
}

// decode returns the id of the conversation of an entry, if any, and the items of a page. It reports
// false if the response still runs, or if what the page has is not valid.
func (s *Store) decode(page store.Page) (conversation string, items []json.RawMessage, ok bool) {
	var facts about
	if json.Unmarshal([]byte(page.About), &facts) != nil || facts.Running {
		return "", nil, false
	}
	for _, record := range page.Records {
		some, ok := s.itemsOf(record)
		if !ok {
			return "", nil, false
		}
		items = append(items, some...)
	}
	return facts.Conversation, items, true
}

func (r *Reader) readLink(ctx context.Context, id string) (links [][]json.RawMessage, previous string, err error) {
	e, err := r.getEntry(ctx, id)
	if err != nil {
		return nil, "", err
	}
	defer e.Release()
	items, err := r.claimLink(e.Conversation, slices.Concat(e.Input, e.Output))
	if previous = e.Previous; r.begun {
		previous = ""
	}
	return [][]json.RawMessage{items}, previous, err
}

func (r *Reader) claimLink(conversation string, items []json.RawMessage) ([]json.RawMessage, error) {
	if r.linksLeft--; r.linksLeft < 0 {
		return nil, ErrTooLong
	}
	if r.Begin != nil {
		if first := r.Begin(items); first >= 0 {
			items, r.begun = items[first:], true
		}
	}
	copies := make([]json.RawMessage, len(items))
	for i, item := range items {
		if err := r.claimItem(len(item), 1); err != nil {
			return nil, err
		}
		copies[i] = slices.Clone(item)
	}
	if conversation != "" { // the items before this response are in the conversation
		return nil, fmt.Errorf("%w: %s", ErrInConversation, conversation)
	}
	return copies, nil
}

// Items returns the items of responses with these ids, by their ids. The error is a *MissingError if an item
// does not exist, ErrTooLong if the items have more bytes than may be read or copied, and ErrNoMemory if there
// is no memory for them. The bytes of an item count as often as ids has its id.
func (r *Reader) Items(ctx context.Context, ids []string) (map[string]json.RawMessage, error) {
	times := make(map[string]map[string]int) // how often an item is named, by response and item
	for _, id := range ids {
		response, ok := responseid.OfItem(id)
		if !ok {
			return nil, &MissingError{id}
		}
		if times[response] == nil {
			times[response] = make(map[string]int)
		}
		times[response][id]++
	}
	found := make(map[string]json.RawMessage)
	for _, response := range slices.Sorted(maps.Keys(times)) {
		if err := r.copyItems(ctx, response, times[response], found); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// copyItems copies items of one response into found, by their ids. times says which items, and how
// often the request refers to each of them.
func (r *Reader) copyItems(ctx context.Context, response string, times map[string]int, found map[string]json.RawMessage) error {
	e, err := r.getEntry(ctx, response)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if err == nil {
		defer e.Release()
		for _, item := range e.Items() {
			id := ItemID(item)
			if times[id] == 0 {
				continue
			}
			if err := r.claimItem(len(item), times[id]); err != nil {
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
