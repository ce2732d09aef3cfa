package responsestore

import (
	"container/list"
	"time"

	"github.com/caddy-codex/caddy-codex/stores"
)

// shares counts the bytes of entries. When there is no room, the least recently used entries of the
// user with the most bytes are dropped, so that no user can push out the entries of others. The
// lock of the store that embeds shares guards it.
type shares struct {
	maxBytes int64
	bytes    int64
	byID     map[string]*kept
	ages     *list.List // of *kept, the one that was put last is first
	users    owners
}

// kept is an entry that is counted.
type kept struct {
	id    string
	entry *stores.Entry // nil on a disk
	until time.Time
	size  int64
	owner *owner
	used  *list.Element // in the list of the owner
	aged  *list.Element // in the list of the ages
}

func newShares(maxBytes int64) shares {
	return shares{maxBytes: maxBytes, byID: make(map[string]*kept), ages: list.New(), users: owners{byName: make(map[string]*owner)}}
}

// put counts an entry of a user, in place of the entry with the same id. It returns the entries
// that were dropped to make room. An entry may take more than half of the room only if no other
// user has entries.
func (s *shares) put(user string, k *kept, now time.Time) (dropped []*kept, err error) {
	if k.size > s.maxBytes || k.size > s.maxBytes/2 && s.users.others(user) {
		return nil, stores.ErrTooLarge
	}
	drop := func(k *kept) {
		s.remove(k)
		dropped = append(dropped, k)
	}
	s.remove(s.byID[k.id])
	for last := s.ages.Back(); last != nil && last.Value.(*kept).until.Before(now); last = s.ages.Back() {
		drop(last.Value.(*kept))
	}
	of := s.users.get(user)
	s.users.add(of, k.size)
	s.bytes += k.size
	for s.bytes > s.maxBytes {
		drop(s.users.most().used.Back().Value.(*kept))
	}
	k.owner = of
	k.used, k.aged = of.used.PushFront(k), s.ages.PushFront(k)
	s.byID[k.id] = k
	return dropped, nil
}

// find returns a user's entry and marks it as just used. It returns nil if there is none, or if it
// is too old.
func (s *shares) find(user, id string, now time.Time) *kept {
	k := s.byID[id]
	if k == nil || k.until.Before(now) || k.owner.name != user {
		return nil
	}
	k.owner.used.MoveToFront(k.used)
	return k
}

// remove removes an entry, if it is not nil.
func (s *shares) remove(k *kept) {
	if k == nil {
		return
	}
	k.owner.used.Remove(k.used)
	s.ages.Remove(k.aged)
	delete(s.byID, k.id)
	s.bytes -= k.size
	s.users.add(k.owner, -k.size)
}
