package store

import (
	"cmp"
	"container/list"
	"time"
)

// index finds entries by id and counts their bytes. When there is no room, it drops the least
// recently used entries of the user with the most bytes, so that no user can push out the entries
// of others. It is guarded by the lock of the engine that embeds it.
type index struct {
	maxBytes int64
	maxAge   time.Duration
	bytes    int64
	byID     map[string]*indexed
	byAge    *list.List            // of *indexed, the last stored first
	byUser   map[string]*userShare // the users who have entries
}

// userShare has the entries of one user.
type userShare struct {
	name    string
	bytes   int64      // of the entries
	entries *list.List // of *indexed, the last used first
}

// indexed is an entry of an [index].
type indexed struct {
	id          string
	stored      time.Time
	size        int64
	share       *userShare
	usedElement *list.Element // in share.entries
	ageElement  *list.Element // in byAge
}

func newIndex(maxBytes int64, maxAge time.Duration) index {
	return index{maxBytes: maxBytes, maxAge: maxAge, byID: make(map[string]*indexed), byAge: list.New(), byUser: make(map[string]*userShare)}
}

// fits reports whether there is room for an entry of a user. An entry may have all the room, or half
// of it while another user has entries.
func (x *index) fits(user string, size int64) bool {
	isAlone := len(x.byUser) == 0 || len(x.byUser) == 1 && x.byUser[user] != nil
	return size <= x.maxBytes && (size <= x.maxBytes/2 || isAlone)
}

// put adds an entry of a user, or changes the size of the entry with the same id, and marks the entry as
// just used. It returns the ids of the entries that were dropped: too old ones, and those that had to
// make room. The error is ErrTooLarge if the entry does not fit.
func (x *index) put(user, id string, size int64, stored, now time.Time) (dropped []string, err error) {
	if !x.fits(user, size) {
		return nil, ErrTooLarge
	}
	k := x.byID[id]
	if k != nil && (k.share.name != user || !k.stored.Equal(stored)) {
		x.remove(k) // the entry was stored anew: its age or its user differs
		k = nil
	}
	if k == nil {
		if x.byUser[user] == nil {
			x.byUser[user] = &userShare{name: user, entries: list.New()}
		}
		k = &indexed{id: id, stored: stored, share: x.byUser[user]}
		k.usedElement, k.ageElement = k.share.entries.PushFront(k), x.byAge.PushFront(k)
		x.byID[id] = k
	}
	k.share.entries.MoveToFront(k.usedElement)
	x.resize(k, size)
	drop := func(k *indexed) {
		x.remove(k)
		dropped = append(dropped, k.id)
	}
	for oldest := x.byAge.Back(); oldest != k.ageElement && x.isOld(oldest.Value.(*indexed), now); oldest = x.byAge.Back() {
		drop(oldest.Value.(*indexed))
	}
	for x.bytes > x.maxBytes {
		drop(x.largest(k).entries.Back().Value.(*indexed))
	}
	return dropped, nil
}

// largest returns the largest share that has an entry to drop. The entry keep, which its user has used
// last, is not to be dropped.
func (x *index) largest(keep *indexed) (largest *userShare) {
	for _, s := range x.byUser {
		if s.entries.Back() == keep.usedElement { // it is the only entry of this share
			continue
		}
		if largest == nil || cmp.Or(cmp.Compare(s.bytes, largest.bytes), cmp.Compare(s.name, largest.name)) > 0 {
			largest = s
		}
	}
	return largest
}

func (x *index) isOld(k *indexed, now time.Time) bool { return k.stored.Add(x.maxAge).Before(now) }

// find returns a user's entry and marks it as just used, or nil if there is none or it is too old.
func (x *index) find(user, id string, now time.Time) *indexed {
	k := x.byID[id]
	if k == nil || x.isOld(k, now) || k.share.name != user {
		return nil
	}
	k.share.entries.MoveToFront(k.usedElement)
	return k
}

func (x *index) resize(k *indexed, size int64) {
	x.bytes += size - k.size
	k.share.bytes += size - k.size
	k.size = size
}

func (x *index) remove(k *indexed) {
	if k == nil {
		return
	}
	k.share.entries.Remove(k.usedElement)
	x.byAge.Remove(k.ageElement)
	delete(x.byID, k.id)
	if x.resize(k, 0); k.share.bytes == 0 {
		delete(x.byUser, k.share.name)
	}
}
