package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"
)

// Local is an engine that only this process uses, over a shelf. When there is no room, it drops
// entries, see [index].
type Local struct {
	shelf    shelf
	maxEntry int64 // the most bytes of an entry; 0: only all entries together are bounded
	now      func() time.Time

	mu sync.Mutex // guards the fields below; held during each change of the shelf
	index
	leased map[string]bool      // the ids of entries whose owner is in this process
	events map[string]time.Time // by the ids of the entries that have events: when the last event was added
}

// shelf keeps records for a [Local].
type shelf interface {
	// view runs a function that reads. An error that is not one of this package wraps ErrUnavailable.
	view(func(transaction) error) error
	// update runs a function that changes records. If the function fails, nothing is changed. The
	// errors are the same as those of view.
	update(func(transaction) error) error
}

// about is a part with one record: the JSON of a metadata.
const about Part = "m"

// transaction is one use of a shelf.
type transaction interface {
	// get returns a record that is valid until the end of the transaction, or nil.
	get(id string, part Part, n int64) []byte
	// keep returns a record from get in a form that stays valid after the transaction.
	keep(record []byte) []byte
	put(id string, part Part, n int64, record []byte) error
	// drop deletes all records of these parts of an entry.
	drop(id string, parts ...Part) error
}

// metadata has the facts about an entry.
type metadata struct {
	User        string    `json:"user"`
	About       string    `json:"about,omitempty"`
	Link        string    `json:"link,omitempty"`
	Stored      time.Time `json:"stored"`
	Bytes       int64     `json:"bytes"` // of the value and the items
	ValueBytes  int64     `json:"value_bytes,omitempty"`
	Items       int64     `json:"items,omitempty"`       // the number of the next item
	Events      int64     `json:"events,omitempty"`      // the number of the next event
	EventBytes  int64     `json:"event_bytes,omitempty"` // of the events that are kept
	EventsAdded time.Time `json:"events_added,omitzero"` // when the last event was added
	Owner       string    `json:"owner,omitempty"`
	EndedBy     string    `json:"ended_by,omitempty"` // see Page
	Cancelled   bool      `json:"cancelled,omitempty"`
}

func newLocal(s shelf, maxBytes, maxEntry int64, maxAge time.Duration) *Local {
	return &Local{
		shelf: s, maxEntry: maxEntry, now: time.Now, index: newIndex(maxBytes, maxAge),
		leased: make(map[string]bool), events: make(map[string]time.Time),
	}
}

func readMetadata(tx transaction, id string) *metadata { return decodeMetadata(tx.get(id, about, 0)) }

func decodeMetadata(record []byte) *metadata {
	m := new(metadata)
	if record == nil || json.Unmarshal(record, m) != nil {
		return nil
	}
	return m
}

// write stores the metadata of an entry, and counts its bytes.
func (l *Local) write(tx transaction, id string, m *metadata) error {
	if l.maxEntry > 0 && m.Bytes > l.maxEntry {
		return ErrTooLarge
	}
	if err := l.count(tx, id, m); err != nil {
		return err
	}
	return writeMetadata(tx, id, m)
}

func writeMetadata(tx transaction, id string, m *metadata) error {
	record, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return tx.put(id, about, 0, record)
}

// count counts the bytes of an entry, and drops other entries if there is no room. If an entry fits only
// without its events, its events are dropped.
func (l *Local) count(tx transaction, id string, m *metadata) (err error) {
	if !l.fits(m.User, m.Bytes) {
		return ErrTooLarge
	}
	if m.EventBytes > 0 && !l.fits(m.User, m.Bytes+m.EventBytes) {
		err = l.dropEvents(tx, id, m)
	}
	if m.EventBytes > 0 {
		l.events[id] = m.EventsAdded
	}
	dropped, putErr := l.index.put(m.User, id, m.Bytes+m.EventBytes, m.Stored, l.now())
	for _, other := range dropped {
		err = errors.Join(err, l.drop(tx, other))
	}
	return errors.Join(err, putErr)
}

// dropEvents drops the events of an entry. The number of the next event stays the same.
func (l *Local) dropEvents(tx transaction, id string, m *metadata) error {
	delete(l.events, id)
	m.EventBytes = 0
	return tx.drop(id, Events)
}

// drop deletes an entry that is not in the index any more.
func (l *Local) drop(tx transaction, id string) error {
	delete(l.leased, id)
	delete(l.events, id)
	return tx.drop(id, about, Value, Items, Events)
}

// missing returns ErrNotFound or, if the shelf does not work, the error of the shelf.
func (l *Local) missing() error {
	return l.shelf.view(func(transaction) error { return ErrNotFound })
}

// with calls run with the metadata of a user's entry. use is the method view or update of the shelf.
func (l *Local) with(user, id string, use func(func(transaction) error) error, run func(transaction, *metadata) error) error {
	if l.find(user, id, l.now()) == nil {
		return l.missing()
	}
	return use(func(tx transaction) error {
		m := readMetadata(tx, id)
		if m == nil {
			return ErrNotFound
		}
		return run(tx, m)
	})
}

// Put implements [Engine].
func (l *Local) Put(ctx context.Context, user, id string, p *Put) error {
	if l.maxEntry > 0 { // the engine is not in memory
		release, err := reserveEntry(ctx, user, p.size())
		if err != nil {
			return err
		}
		defer release()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.Keep {
		return l.with(user, id, l.shelf.update, func(tx transaction, m *metadata) error { return l.put(tx, user, id, m, p) })
	}
	return l.shelf.update(func(tx transaction) error {
		m := readMetadata(tx, id)
		if k := l.byID[id]; m != nil && (k == nil || l.isOld(k, l.now())) {
			m = nil // the index has dropped the entry, or the entry is too old
		}
		if m == nil {
			m = &metadata{User: user}
			if err := tx.drop(id, Events); err != nil { // events of an entry that was too old may be left
				return err
			}
		}
		return l.put(tx, user, id, m, p)
	})
}

// put stores an entry. m is its present or new metadata.
func (l *Local) put(tx transaction, user, id string, m *metadata, p *Put) error {
	if m.User != user || m.Owner != "" && m.Owner != p.Owner {
		return ErrEnded
	}
	value := int64(cap(p.Value))
	if p.Keep {
		m.Bytes += value - m.ValueBytes + int64(len(p.About)-len(m.About))
	} else {
		m.Link, m.Stored, m.Bytes, m.Items = p.Link, l.now(), p.size()+int64(len(id)), int64(len(p.Items))
	}
	m.About, m.ValueBytes = p.About, value
	if p.Begin {
		m.Owner = p.Owner
	}
	if err := l.write(tx, id, m); err != nil {
		return err
	}
	if p.Begin {
		l.leased[id] = true
	}
	if p.Keep {
		return tx.put(id, Value, 0, p.Value)
	}
	err := errors.Join(tx.drop(id, Value, Items), tx.put(id, Value, 0, p.Value))
	for n, item := range p.Items {
		err = errors.Join(err, tx.put(id, Items, int64(n), item))
	}
	return err
}

// Append implements [Engine].
func (l *Local) Append(ctx context.Context, user, id string, a *Append) (cancelled bool, err error) {
	if l.maxEntry > 0 && a.Part == Items {
		release, err := reserveEntry(ctx, user, sizeOf(a.Records))
		if err != nil {
			return false, err
		}
		defer release()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	use := l.shelf.update
	if a.renewsOnly() {
		use = l.shelf.view
	}
	err = l.with(user, id, use, func(tx transaction, m *metadata) error {
		if a.Part == Items {
			return l.addItems(tx, id, m, a)
		}
		cancelled = m.Cancelled
		return l.addEvents(tx, id, m, a)
	})
	if err == nil && a.Over {
		delete(l.leased, id)
	}
	return cancelled, err
}

func (l *Local) addItems(tx transaction, id string, m *metadata, a *Append) error {
	first := m.Items
	m.Items += int64(len(a.Records))
	m.Bytes += sizeOf(a.Records)
	err := l.write(tx, id, m)
	for i, record := range a.Records {
		if err == nil {
			err = tx.put(id, Items, first+int64(i), record)
		}
	}
	return err
}

// addEvents adds events, as many as there is room for.
func (l *Local) addEvents(tx transaction, id string, m *metadata, a *Append) error {
	if a.Cancel {
		m.Cancelled = true
		return l.write(tx, id, m)
	}
	if m.Owner != a.Owner && (a.Lease > 0 || l.leased[id]) { // without a Lease, a may replace a lost owner
		return ErrEnded
	}
	if a.renewsOnly() {
		return nil
	}
	if m.Events == 0 { // before the first events of an entry
		if err := l.dropOldEvents(tx); err != nil {
			return err
		}
	}
	m.Owner = a.Owner
	if m.EndedBy == "" {
		fits := true
		for i, record := range a.Records {
			n, size := a.First+int64(i), RecordOverhead+int64(len(record))
			if n < m.Events {
				continue
			}
			// Without room for one event, all later ones are left out, too.
			if fits = fits && l.fits(m.User, m.Bytes+m.EventBytes+size); fits {
				if err := tx.put(id, Events, n, record); err != nil {
					return err
				}
				m.EventBytes += size
			}
			m.Events = n + 1
		}
		m.Events, m.EventsAdded = max(m.Events, a.First), l.now()
		if a.Over {
			m.EndedBy = a.Owner
		}
	}
	return l.write(tx, id, m)
}

// dropOldEvents drops the events of the entries whose last event is old.
func (l *Local) dropOldEvents(tx transaction) error {
	for id, added := range l.events {
		if l.now().Sub(added) < EventsTime {
			continue
		}
		m, k := readMetadata(tx, id), l.byID[id]
		if m == nil || k == nil {
			delete(l.events, id)
			continue
		}
		if err := errors.Join(l.dropEvents(tx, id, m), writeMetadata(tx, id, m)); err != nil {
			return err
		}
		l.resize(k, m.Bytes)
	}
	return nil
}

// Delete implements [Engine].
func (l *Local) Delete(_ context.Context, user, id string, item int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.with(user, id, l.shelf.update, func(tx transaction, m *metadata) error {
		if item == Whole {
			l.remove(l.byID[id])
			return l.drop(tx, id)
		}
		size := len(tx.get(id, Items, item))
		if size == 0 {
			return ErrNotFound
		}
		m.Bytes -= int64(size)
		return errors.Join(l.write(tx, id, m), tx.put(id, Items, item, []byte{}))
	})
}

// Read implements [Engine].
func (l *Local) Read(ctx context.Context, user, id string, q Query) (pages []Page, err error) {
	for ; ; q.Links-- {
		page, read, err := l.readPage(user, id, q)
		isFirst := len(pages) == 0
		switch {
		case isFirst && err != nil:
			return nil, err
		case err != nil || page.Larger > 0 && !isFirst: // the pages end before this one
			return pages, nil
		}
		pages = append(pages, page)
		if page.Link == "" || q.Links <= 0 || q.From+int64(len(page.Records)) < page.Next || ctx.Err() != nil {
			return pages, nil
		}
		id, q.From, q.Limit = page.Link, 0, q.Limit-read
	}
}

// readPage reads records of one entry. read is how many bytes of the limit they take.
func (l *Local) readPage(user, id string, q Query) (page Page, read int64, err error) {
	l.mu.Lock()
	k, leased := l.find(user, id, l.now()), l.leased[id]
	if k == nil {
		err = l.missing()
	}
	l.mu.Unlock()
	if err != nil {
		return page, 0, err
	}
	err = l.shelf.view(func(tx transaction) error {
		m := readMetadata(tx, id)
		if m == nil || m.User != user {
			return ErrNotFound
		}
		page = Page{ID: id, About: m.About, Link: m.Link, Bytes: m.Bytes, Leased: leased, EndedBy: m.EndedBy, Next: map[Part]int64{Value: 1, Items: m.Items, Events: m.Events}[q.Part]}
		for n := q.From; n < page.Next; n++ {
			record := tx.get(id, q.Part, n)
			if record == nil && q.Part != Events {
				return errDamaged
			}
			if record == nil { // this event was dropped, or there was no room for it
				break
			}
			size := RecordOverhead + int64(len(record))
			if read+size > q.Limit {
				if len(page.Records) == 0 {
					page.Larger = size
				}
				break
			}
			if !bytes.Contains(record, []byte(q.Text)) {
				record = nil
			}
			page.Records, read = append(page.Records, tx.keep(record)), read+size
		}
		return nil
	})
	if errors.Is(err, ErrNotFound) && l.isIndexed(k) { // the entry was not deleted, but its metadata is gone
		err = Unavailable(errDamaged)
	}
	return page, read, err
}

func (l *Local) isIndexed(k *indexed) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byID[k.id] == k
}

// Watch implements [Engine]. The channel is closed only after WatchTime: no other process can change
// an entry.
func (*Local) Watch(string) <-chan struct{} {
	changed := make(chan struct{})
	time.AfterFunc(WatchTime, func() { close(changed) })
	return changed
}

// Lasts implements [Engine]. Only an engine in memory has no maxEntry.
func (l *Local) Lasts() bool { return l.maxEntry > 0 }

// Fails implements [Engine].
func (*Local) Fails() bool { return false }

// load fills the index with entries of the shelf, the oldest first. It drops those beyond the limits.
func (l *Local) load(tx transaction, found map[string]*metadata) error {
	l.index, l.events = newIndex(l.maxBytes, l.maxAge), make(map[string]time.Time)
	byAge := func(a, b string) int { return found[a].Stored.Compare(found[b].Stored) }
	for _, id := range slices.SortedFunc(maps.Keys(found), byAge) {
		err := l.count(tx, id, found[id])
		if errors.Is(err, ErrTooLarge) { // the limits were larger when the entry was stored
			err = l.drop(tx, id)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
