package responsestore

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/responseid"
)

// The interval of sweeps and the time limit of one. The next sweep continues where
// the time limit ended one.
const (
	sweepEvery = time.Hour
	sweepTime  = 10 * time.Minute
)

// sweepDue is when the next sweep is due. All stores in Caddy's storage share it, since they
// share a folder and live only as long as their configurations. Reloads must not postpone sweeps
// again and again.
var sweepDue atomic.Pointer[time.Time]

func init() { dueIn(sweepEvery) }

// dueIn makes a sweep due in a time.
func dueIn(d time.Duration) { sweepDue.Store(new(time.Now().Add(d))) }

// countPut counts a new entry, and starts a sweep after more than a tenth of MaxCount.
func (s *Shared) countPut() {
	if s.puts.Add(1) <= int64(s.limits.MaxCount/10) {
		return
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// sweepUntil deletes old entries when that is due and after many new entries, until ctx ends.
func (s *Shared) sweepUntil(ctx context.Context) {
	for {
		due := sweepDue.Load()
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		case <-time.After(time.Until(*due)):
			if !sweepDue.CompareAndSwap(due, new(time.Now().Add(sweepEvery))) {
				continue // another store sweeps
			}
		}
		s.puts.Store(0)
		limited, cancel := context.WithTimeout(ctx, sweepTime)
		deleted, err := s.sweep(limited)
		cancel()
		if ctx.Err() != nil {
			dueIn(0) // it was interrupted
			return
		}
		if err != nil {
			s.logger.Warn("old responses could not all be deleted", "error", err)
		}
		if deleted > 0 {
			s.logger.Debug("old responses were deleted", "count", deleted)
		}
	}
}

// sweep deletes the entries that are too old, the oldest ones if there are too many, and what
// nodes that have ended suddenly have left of responses that they made. It continues after a
// key that it cannot delete, and returns the last such error.
func (s *Shared) sweep(ctx context.Context) (deleted int, err error) {
	keys, err := s.entries(ctx)
	if err != nil {
		return 0, err
	}
	old := max(0, len(keys)-s.limits.MaxCount)
	for old < len(keys) && s.over(timeOf(keys[old])) {
		old++
	}
	left, err := s.list(ctx, claimFolder)
	left = slices.DeleteFunc(left, func(key string) bool {
		at := timeOf(key)
		return at.IsZero() || s.now().Sub(at) < claimsLeft
	})
	for _, key := range append(keys[:old], left...) {
		switch removed := s.remove(ctx, "", key); {
		case removed == nil:
			deleted++
		case ctx.Err() != nil:
			return deleted, removed
		case !errors.Is(removed, ErrNotFound): // else another node has deleted it
			err = removed
		}
	}
	return deleted, err
}

// entries returns the keys of all entries, oldest first. It ignores other keys in the folder.
func (s *Shared) entries(ctx context.Context) ([]string, error) {
	keys, err := s.list(ctx, folder)
	keys = slices.DeleteFunc(keys, func(key string) bool {
		return timeOf(key).IsZero() || !strings.HasSuffix(key, entryKey(idOf(key)))
	})
	slices.SortFunc(keys, func(a, b string) int {
		return strings.Compare(idOf(a)[len(responseid.Prefix):], idOf(b)[len(responseid.Prefix):])
	})
	return keys, err
}

// idOf returns what a key has before its extensions: the id, if the key is of a store.
func idOf(key string) string {
	id, _, _ := strings.Cut(path.Base(key), ".")
	return id
}

// timeOf returns the time in the id of a key, or the zero time if the key is not of a store.
func timeOf(key string) time.Time {
	at, _ := responseid.Time(idOf(key))
	return at
}
