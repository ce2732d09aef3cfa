package store

import (
	"context"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/claims"
)

// MaxEntry is the largest size of an entry, in bytes, in an engine that is not in memory.
const MaxEntry = 64 << 20

// transferMemory bounds the memory of all large entries that are transferred from or to engines,
// in bytes.
const transferMemory = 4 * MaxEntry

// FreeTransfer is the largest size of an entry, in bytes, for which Reserve never waits.
const FreeTransfer = 256 << 10

var transfers = claims.NewQueue(claims.QueueOptions{
	Concurrent: transferMemory, PerUser: transferMemory / 2, Queue: 4096, Wait: time.Minute,
})

// Reserve waits for the memory of a user's records that are about to be read or written. It returns
// the function that releases the memory. For at most [FreeTransfer] bytes, it reserves nothing.
// Otherwise it reserves twice the size, since the records are in memory encoded and decoded. The
// error wraps ErrUnavailable.
func Reserve(ctx context.Context, user string, size int64) (release func(), err error) {
	if size <= FreeTransfer {
		return func() {}, nil
	}
	memory, err := transfers.Acquire(ctx, user, int(min(2*size, int64(transfers.Heaviest()))))
	if err != nil {
		return nil, Unavailable(err)
	}
	return memory.Release, nil
}

// reserveEntry waits for the memory of size bytes that are to be stored, like [Reserve]. The error is
// ErrTooLarge if they are more than [MaxEntry].
func reserveEntry(ctx context.Context, user string, size int64) (release func(), err error) {
	if size > MaxEntry {
		return nil, ErrTooLarge
	}
	return Reserve(ctx, user, size)
}
