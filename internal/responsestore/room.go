package responsestore

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// room is the memory of one entry that is transferred from or to a storage. It is
// returned when all holders have released it. One of them may be a call to the
// storage whose caller has left.
type room struct {
	memory  *semaphore.Weighted
	bytes   int64
	holders atomic.Int32
}

// reserve waits for the memory of an entry with this size. The entry is in memory
// twice, encoded and decoded.
func (s *Shared) reserve(ctx context.Context, size int64) (*room, error) {
	r := &room{memory: s.memory, bytes: min(2*size, transferMemory)}
	if err := s.memory.Acquire(ctx, r.bytes); err != nil {
		return nil, unavailable(context.Cause(ctx))
	}
	r.holders.Store(1)
	return r, nil
}

// hold adds a holder. Like release, it does nothing if r is nil.
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
