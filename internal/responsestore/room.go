package responsestore

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// room is the memory of one entry that is on its way from or to a storage. It is
// given back when all who hold it have released it: a call of the storage may go
// on when nobody waits for it any more.
type room struct {
	memory  *semaphore.Weighted
	bytes   int64
	holders atomic.Int32
}

// reserve waits for the memory of an entry of a size, which is there twice: as it
// is stored, and as it is used.
func (s *Shared) reserve(ctx context.Context, size int64) (*room, error) {
	r := &room{memory: s.memory, bytes: min(2*size, transferMemory)}
	if err := s.memory.Acquire(ctx, r.bytes); err != nil {
		return nil, unavailable(context.Cause(ctx))
	}
	r.holders.Store(1)
	return r, nil
}

// hold adds a holder. It does nothing without a room, as does release.
func (r *room) hold() {
	if r != nil {
		r.holders.Add(1)
	}
}

func (r *room) release() {
	if r != nil && r.holders.Add(-1) == 0 {
		r.memory.Release(r.bytes)
	}
}
