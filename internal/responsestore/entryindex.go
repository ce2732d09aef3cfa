package responsestore

import (
	"container/list"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/stores"
)

// entryIndex finds entries by id and counts their bytes. When there is no room, it drops the least
// recently used entries of the user with the most bytes, so that no user can push out the entries
// of others. It is guarded by the lock of the store that embeds it.
type entryIndex struct {
	maxBytes int64
	bytes    int64
	byID     map[string]*storedEntry
	byAge    *list.List // of *storedEntry, the last stored first
	users    userShares
}

// storedEntry is an entry of an [entryIndex].
type storedEntry struct {
	id          string
	entry       *stores.Entry // nil if it is in a file
	expires     time.Time
	size        int64
	share       *userShare
	usedElement *list.Element // in share.entries
	ageElement  *list.Element // in byAge
}

func newEntryIndex(maxBytes int64) entryIndex {
	return entryIndex{maxBytes: maxBytes, byID: make(map[string]*storedEntry), byAge: list.New(), users: userShares{byName: make(map[string]*userShare)}}
}

// put adds an entry of a user, in place of the entry with the same id. It returns the other entries
// that were dropped: those that were too old, and those that had to make room. The error is
// ErrTooLarge if the entry needs more than all the room, or more than half of it while another user
// has entries.
func (s *entryIndex) put(user string, k *storedEntry, now time.Time) (dropped []*storedEntry, err error) {
	if k.size > s.maxBytes || k.size > s.maxBytes/2 && s.users.hasOther(user) {
		return nil, stores.ErrTooLarge
	}
	drop := func(k *storedEntry) {
		s.remove(k)
		dropped = append(dropped, k)
	}
	s.remove(s.byID[k.id])
	for last := s.byAge.Back(); last != nil && last.Value.(*storedEntry).expires.Before(now); last = s.byAge.Back() {
		drop(last.Value.(*storedEntry))
	}
	share := s.users.getOrAdd(user)
	s.users.addBytes(share, k.size)
	s.bytes += k.size
	for s.bytes > s.maxBytes {
		drop(s.users.largest().entries.Back().Value.(*storedEntry))
	}
	k.share = share
	k.usedElement, k.ageElement = share.entries.PushFront(k), s.byAge.PushFront(k)
	s.byID[k.id] = k
	return dropped, nil
}

// find returns a user's entry and marks it as just used. It returns nil if the user has no such
// entry, or if the entry is too old.
func (s *entryIndex) find(user, id string, now time.Time) *storedEntry {
	k := s.byID[id]
	if k == nil || k.expires.Before(now) || k.share.name != user {
		return nil
	}
	k.share.entries.MoveToFront(k.usedElement)
	return k
}

// remove removes an entry. If k is nil, it does nothing.
func (s *entryIndex) remove(k *storedEntry) {
	if k == nil {
		return
	}
	k.share.entries.Remove(k.usedElement)
	s.byAge.Remove(k.ageElement)
	delete(s.byID, k.id)
	s.bytes -= k.size
	s.users.addBytes(k.share, -k.size)
}
