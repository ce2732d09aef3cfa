package responsestore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/claims"
)

// transferMemory bounds the memory of all large entries that are transferred from or to engines,
// in bytes, and freeTransfer is what an entry may have that need not wait for it.
const (
	transferMemory = 4 * maxEntry
	freeTransfer   = 256 << 10
)

var transfers = claims.NewQueue(claims.QueueOptions{
	Concurrent: transferMemory, PerUser: transferMemory / 2, Queue: 4096, Wait: time.Minute,
})

// reserve waits for the memory of a user's entry with this size, and returns what releases it. The
// entry is in memory twice, encoded and decoded.
func reserve(ctx context.Context, user string, size int64) (release func(), err error) {
	if size <= freeTransfer {
		return func() {}, nil
	}
	memory, err := transfers.Acquire(ctx, user, int(min(2*size, int64(transfers.Heaviest()))))
	if err != nil {
		return nil, unavailable(err)
	}
	return memory.Release, nil
}

// reserveEntry waits for the memory of an entry that is to be stored, like reserve. The error is
// ErrTooLarge if it is too large for an engine.
func reserveEntry(ctx context.Context, e *Entry) (release func(), err error) {
	if e.Size() > maxEntry {
		return nil, ErrTooLarge
	}
	return reserve(ctx, e.User, e.Size())
}

// unavailable returns the error of an engine that does not work.
func unavailable(err error) error {
	if err == nil || errors.Is(err, ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}
