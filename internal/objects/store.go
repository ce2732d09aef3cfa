package objects

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/responseid"
	"github.com/caddy-codex/caddy-codex/internal/store"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// Store keeps responses and conversations in an engine. A response is an entry whose value is the
// Response object, and whose items are those of its input and of its output. A background response
// also has events. A conversation is an entry whose value is its object. Store is safe for concurrent
// use. Each context has a deadline. The errors are those of [store.Engine].
//
// If other processes can read the store, the Store that begins a background response owns it as long
// as it calls Continue at least every leaseTime, by the engine's clock. If the owner stops, the
// response is lost: the next Store that reads the response replaces it by a failed one, see [Lost].
// A response that has ended never changes.
type Store struct {
	engine store.Engine
	owner  string // identifies this Store as the owner of responses
	logger *slog.Logger
}

// leaseTime is how long a Store owns a response without calling Continue.
const leaseTime = 30 * time.Second

// NewStore returns a store in an engine.
func NewStore(engine store.Engine, logger *slog.Logger) *Store {
	return &Store{engine: engine, owner: rand.Text(), logger: logger}
}

// Fails reports whether the engine did not work when it was last used.
func (s *Store) Fails() bool { return s.engine.Fails() }

func isStoredID(id string) bool { return responseid.Valid(id) || responseid.ValidConversation(id) }

// Put stores an entry, and replaces an entry with the same id. If the entry is a running response, this
// Store owns the response from then on. The error wraps store.ErrEnded if another owner has begun the
// response.
func (s *Store) Put(ctx context.Context, id string, e *Entry) error {
	if !isStoredID(id) {
		return fmt.Errorf("the id %.64q: %w", id, store.ErrNotFound)
	}
	items := e.Items()
	if responseid.Valid(id) {
		items = pack(items)
	}
	return s.engine.Put(ctx, e.User, id, &store.Put{
		About: about{e.Conversation, e.Running, len(e.Input)}.encode(), Link: e.Previous, Value: e.Response, Items: items,
		Owner: s.owner, Lease: leaseTime, Begin: e.Running,
	})
}

// Get returns an entry of a user without its Response. The caller must release the entry.
func (s *Store) Get(ctx context.Context, user, id string) (*Entry, error) {
	e, about, items, err := s.read(ctx, user, id, store.Items)
	if err != nil {
		return nil, err
	}
	input := min(about.Input, len(items))
	if responseid.ValidConversation(id) {
		input = len(items)
	}
	e.Input, e.Output = items[:input:input], items[input:]
	return e, nil
}

// GetObject returns an entry of a user without its items. The caller must release the entry.
func (s *Store) GetObject(ctx context.Context, user, id string) (*Entry, error) {
	e, _, values, err := s.read(ctx, user, id, store.Value)
	if err != nil {
		return nil, err
	}
	e.Response = values[0]
	return e, nil
}

// errChanging is the error for a response that seems lost at each attempt to read it, but whose owner then
// continues it.
var errChanging = store.Unavailable(errors.New("it changes too often to be read"))

// read returns an entry of a user with the items of a part. If the response is lost, read stores the
// failed response, and reads the entry again.
func (s *Store) read(ctx context.Context, user, id string, part store.Part) (*Entry, about, []json.RawMessage, error) {
	for range 3 {
		r, items, err := s.readAll(ctx, user, id, part)
		e := &Entry{User: user, Previous: r.page.Link, Conversation: r.about.Conversation, Running: r.about.Running, release: r.release}
		switch {
		case err != nil:
			e.Release()
			return nil, about{}, nil, err
		case !r.about.Running || r.page.Leased:
			return e, r.about, items, nil
		}
		e.Release()
		if err := s.markLost(ctx, user, id); err != nil {
			return nil, about{}, nil, err
		}
	}
	return nil, about{}, nil, errChanging
}

// records reads the records of a part of an entry, page by page. Items that are added meanwhile are
// left out.
type records struct {
	store    *Store
	user, id string
	part     store.Part
	text     string // items without this text may be left out

	page    store.Page // the first page, without its records
	about   about
	release func() // frees the memory of the records
}

func (s *Store) newRecords(user, id string, part store.Part) *records {
	return &records{store: s, user: user, id: id, part: part, release: func() {}}
}

// readAll returns the items of a part of an entry. The caller calls release, also after an error.
func (s *Store) readAll(ctx context.Context, user, id string, part store.Part) (r *records, items []json.RawMessage, err error) {
	r = s.newRecords(user, id, part)
	err = r.each(ctx, func(_ int64, item json.RawMessage) bool {
		items = append(items, item)
		return true
	})
	if err == nil && part == store.Value && len(items) == 0 {
		err = s.damaged(id)
	}
	return r, items, err
}

// each calls use with each item and the number of its record, until use returns false. The value of an
// entry is one item. The caller calls release, also after an error.
func (r *records) each(ctx context.Context, use func(n int64, item json.RawMessage) bool) error {
	if !isStoredID(r.id) {
		return store.ErrNotFound
	}
	limit, reserved := r.store.pageSize(), false
	for from, isFirst := int64(0), true; isFirst || from < r.page.Next; {
		pages, err := r.store.engine.Read(ctx, r.user, r.id, store.Query{Part: r.part, From: from, Limit: limit, Text: r.text})
		if err != nil {
			return err
		}
		page := pages[0]
		read := page.Records
		if isFirst {
			page.Records = nil
			r.page, isFirst = page, false
			if json.Unmarshal([]byte(page.About), &r.about) != nil {
				return r.store.damaged(r.id)
			}
		}
		// The next page has room for the larger record.
		limit = max(r.store.pageSize(), page.Larger)
		if !reserved && (page.Larger > 0 || from+int64(len(read)) < r.page.Next) { // once, for all that remains
			size := page.Bytes
			if r.part == store.Value {
				size = page.Larger
			}
			release, err := store.Reserve(ctx, r.user, size)
			if err != nil {
				return err
			}
			r.release, reserved = release, true
		}
		if len(read) == 0 && page.Larger == 0 && from < r.page.Next { // a record is missing
			return r.store.damaged(r.id)
		}
		for _, record := range read[:min(int64(len(read)), r.page.Next-from)] { // none that was added meanwhile
			items, ok := r.store.itemsOf(record)
			if !ok {
				return r.store.damaged(r.id)
			}
			for _, item := range items {
				if !use(from, item) {
					return nil
				}
			}
			from++
		}
	}
	return nil
}

// pageSize is the most bytes that one call of the engine may return: as many as need no reservation. An
// engine in memory copies nothing, so there is no limit.
func (s *Store) pageSize() int64 {
	if s.engine.Lasts() {
		return store.FreeTransfer
	}
	return math.MaxInt64
}

// damaged logs that an entry cannot be read, and returns the error. For its user, the entry does not
// exist.
func (s *Store) damaged(id string) error {
	s.logger.Warn("a kept response cannot be read", "response", id)
	return store.ErrNotFound
}

// Delete deletes an entry of a user, with all that belongs to it.
func (s *Store) Delete(ctx context.Context, user, id string) error {
	if !isStoredID(id) {
		return store.ErrNotFound
	}
	return s.engine.Delete(ctx, user, id, store.Whole)
}

// CountItems returns how many items a conversation has got, also deleted ones.
func (s *Store) CountItems(ctx context.Context, user, id string) (int64, error) {
	pages, err := s.engine.Read(ctx, user, id, store.Query{Part: store.Items, Limit: 1})
	if err != nil {
		return 0, err
	}
	return pages[0].Next, nil
}

// AddItems adds items to a conversation. If several callers add items at the same time, the items of
// each caller stay together.
func (s *Store) AddItems(ctx context.Context, user, id string, items []json.RawMessage) error {
	if !responseid.ValidConversation(id) {
		return store.ErrNotFound
	}
	e := Entry{Input: items}
	_, err := s.engine.Append(ctx, user, id, &store.Append{Part: store.Items, Records: e.Items(), Owner: rand.Text()})
	return err
}

// FindItem returns an item of a conversation, and its number. If there is none, the error is an
// [*apierror.Error]. The caller calls release, also after an error.
func (s *Store) FindItem(ctx context.Context, user, conversation, id string) (item json.RawMessage, number int64, release func(), err error) {
	if !responseid.ValidConversation(conversation) {
		return nil, 0, func() {}, store.ErrNotFound
	}
	r := s.newRecords(user, conversation, store.Items)
	r.text = string(wirejson.AppendString(nil, id))
	err = r.each(ctx, func(n int64, found json.RawMessage) bool {
		if ItemID(found) == id {
			item, number = found, n
		}
		return item == nil
	})
	if err == nil && item == nil {
		err = apierror.ConversationItemNotFound(conversation, id)
	}
	return item, number, r.release, err
}

// SetObject replaces the object of a conversation.
func (s *Store) SetObject(ctx context.Context, user, id string, object json.RawMessage) error {
	if !responseid.ValidConversation(id) {
		return store.ErrNotFound
	}
	return s.engine.Put(ctx, user, id, &store.Put{About: about{}.encode(), Value: object, Keep: true, Owner: s.owner})
}

// Event is one event. It must not be changed.
type Event struct {
	Name string
	Data []byte
}

func (e Event) record() []byte { return append(append([]byte(e.Name), ' '), e.Data...) }

// EventPage has successive events of a response. First is the number of the first one.
type EventPage struct {
	First  int64
	Events []Event
	Over   bool  // no events follow these
	Larger int64 // the size of the next event if that is above the limit; else 0
}

// ErrDropped is the error for events that are not kept any more.
var ErrDropped = errors.New("the events are not kept any more")

// Continue adds events to a response that this Store owns, and reports whether Cancel was called
// for the response. Events that the response already has are skipped. The error is store.ErrEnded if the
// response was lost, and store.ErrNotFound if there is no such response any more.
func (s *Store) Continue(ctx context.Context, user, id string, events EventPage) (cancelled bool, err error) {
	records := make([][]byte, len(events.Events))
	for i, e := range events.Events {
		records[i] = e.record()
	}
	return s.engine.Append(ctx, user, id, &store.Append{
		Part: store.Events, First: events.First, Records: records, Owner: s.owner, Lease: leaseTime, Over: events.Over,
	})
}

// Events returns some of the events of a response, without a gap. The parameter from is the number of the
// first one. If that event has not come yet, Events returns none. The events have at most limit bytes. If
// the first event alone is larger, Events returns none, and the size of that event in Larger. The error is
// ErrDropped if the events are not kept any more.
func (s *Store) Events(ctx context.Context, user, id string, from, limit int64) (EventPage, error) {
	for range 3 {
		pages, err := s.engine.Read(ctx, user, id, store.Query{Part: store.Events, From: from, Limit: limit})
		if err != nil {
			return EventPage{}, err
		}
		page := pages[0]
		events := EventPage{First: from, Larger: page.Larger}
		for _, record := range page.Records {
			name, data, _ := bytes.Cut(record, []byte(" "))
			events.Events = append(events.Events, Event{Name: string(name), Data: data})
		}
		next := from + int64(len(page.Records))
		switch {
		case page.Larger > 0:
			return events, nil
		case next == from && from < page.Next: // the first event was dropped
			return events, ErrDropped
		case from >= page.Next && page.EndedBy == lostOwner:
			return s.lostEvent(ctx, user, id, from)
		case next < page.Next || next > from || page.EndedBy != "" || page.Leased:
			events.Over = next >= page.Next && page.EndedBy != ""
			return events, nil
		}
		var facts about // there is no event, end or lease: is the response lost?
		if json.Unmarshal([]byte(page.About), &facts) != nil {
			return events, s.damaged(id)
		}
		if !facts.Running { // the response has ended, and its last events are missing
			return events, ErrDropped
		}
		if err := s.markLost(ctx, user, id); err != nil {
			return events, err
		}
	}
	return EventPage{}, errChanging
}
