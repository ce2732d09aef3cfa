package store

import (
	"container/list"
	"time"
)

// index finds entries by id and counts their bytes. When there is no room, it drops the least
// recently used entries of the user with the most bytes, so that no user can push out the entries
// of others. It is guarded by the lock of the engine that embeds it.
type index struct {
	maxBytes int64
	bytes    int64
	byID     map[string]*indexed
	byAge    *list.List // of *indexed, the last stored first
	users    userShares
}

// indexed is an entry of an [index].
type indexed struct {
	id          string
	expires     time.Time
	size        int64
	share       *userShare
	usedElement *list.Element // in share.entries
	ageElement  *list.Element // in byAge
}

func newIndex(maxBytes int64) index {
	return index{maxBytes: maxBytes, byID: make(map[string]*indexed), byAge: list.New(), users: userShares{byName: make(map[string]*userShare)}}
}

// fits reports whether there is room for an entry of a user. An entry may have all the room, or half
// of it while another user has entries.
func (x *index) fits(user string, size int64) bool {
	return size <= x.maxBytes && (size <= x.maxBytes/2 || !x.users.hasOther(user))
}

// put adds an entry of a user, in place of the entry with the same id. It returns the ids of the other
// entries that were dropped: those that were too old, and those that had to make room. The error is
// ErrTooLarge if the entry does not fit.
func (x *index) put(user string, k *indexed, now time.Time) (dropped []string, err error) {
	if !x.fits(user, k.size) {
		return nil, ErrTooLarge
	}
	drop := func(k *indexed) {
		x.remove(k)
		dropped = append(dropped, k.id)
	}
	x.remove(x.byID[k.id])
	for last := x.byAge.Back(); last != nil && last.Value.(*indexed).expires.Before(now); last = x.byAge.Back() {
		drop(last.Value.(*indexed))
	}
	share := x.users.getOrAdd(user)
	x.users.addBytes(share, k.size)
	x.bytes += k.size
	for x.bytes > x.maxBytes {
		drop(x.users.largest().entries.Back().Value.(*indexed))
	}
	k.share = share
	k.usedElement, k.ageElement = share.entries.PushFront(k), x.byAge.PushFront(k)
	x.byID[k.id] = k
	return dropped, nil
}

// find returns a user's entry and marks it as just used. It returns nil if the user has no such
// entry, or if the entry is too old.
func (x *index) find(user, id string, now time.Time) *indexed {
	k := x.byID[id]
	if k == nil || k.expires.Before(now) || k.share.name != user {
		return nil
	}
	k.share.entries.MoveToFront(k.usedElement)
	return k
}

// resize changes the size of an entry, and nothing else.
func (x *index) resize(k *indexed, size int64) {
	x.bytes += size - k.size
	x.users.addBytes(k.share, size-k.size)
	k.size = size
}

// remove removes an entry. If k is nil, it does nothing.
func (x *index) remove(k *indexed) {
	if k == nil {
		return
	}
	k.share.entries.Remove(k.usedElement)
	x.byAge.Remove(k.ageElement)
	delete(x.byID, k.id)
	x.bytes -= k.size
	x.users.addBytes(k.share, -k.size)
}
