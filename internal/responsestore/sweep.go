package responsestore

import (
	"context"
	"errors"
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

// schedule holds when the next sweep is due. All stores in Caddy's storage share one,
// since they share a folder and live only as long as their configurations. Reloads
// must not postpone sweeps again and again.
type schedule struct{ due atomic.Pointer[time.Time] }

var sweeps = newSchedule()

func newSchedule() *schedule {
	s := new(schedule)
	s.dueIn(sweepEvery)
	return s
}

// dueIn makes a sweep due in a time.
func (s *schedule) dueIn(d time.Duration) {
	due := time.Now().Add(d)
	s.due.Store(&due)
}

// wait returns the time until the next sweep.
func (s *schedule) wait() time.Duration { return time.Until(*s.due.Load()) }

// take starts the sweep that is due. It returns false if another store has.
func (s *schedule) take() bool {
	due, next := s.due.Load(), time.Now().Add(sweepEvery)
	return time.Until(*due) <= 0 && s.due.CompareAndSwap(due, &next)
}

// sweeper deletes old entries on its own goroutine, once an hour and after many new
// entries.
type sweeper struct {
	stop func()
	done chan struct{} // closed when the sweeper has ended
	wake chan struct{}
	puts atomic.Int64 // number of new entries since the last sweep
}

func (w *sweeper) start(s *Shared, sweeps *schedule) {
	ctx, stop := context.WithCancel(context.Background())
	w.stop, w.done, w.wake = stop, make(chan struct{}), make(chan struct{}, 1)
	go w.run(ctx, s, sweeps)
}

// close ends the sweeper and waits for it.
func (w *sweeper) close() {
	w.stop()
	<-w.done
}

// put counts a new entry, and starts a sweep after more than a tenth of maxCount.
func (w *sweeper) put(maxCount int) {
	if w.puts.Add(1) <= int64(maxCount/10) {
		return
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// run sweeps until the store is closed.
func (w *sweeper) run(ctx context.Context, s *Shared, sweeps *schedule) {
	defer close(w.done)
	due := time.NewTimer(sweeps.wait())
	defer due.Stop()
	for {
		scheduled := false
		select {
		case <-ctx.Done():
			return
		case <-due.C:
			scheduled = sweeps.take()
			due.Reset(sweeps.wait())
			if !scheduled {
				continue
			}
		case <-w.wake:
		}
		w.puts.Store(0)
		limited, cancel := context.WithTimeout(ctx, sweepTime)
		deleted, err := s.sweep(limited)
		cancel()
		if ctx.Err() != nil {
			if scheduled {
				sweeps.dueIn(0) // it was interrupted
			}
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

// sweep deletes the entries that are too old, and the oldest ones if there are too
// many. It continues after an entry that it cannot delete, and returns the last such
// error.
func (s *Shared) sweep(ctx context.Context) (deleted int, err error) {
	keys, err := s.entries(ctx)
	if err != nil {
		return 0, err
	}
	err = s.sweepClaims(ctx)
	tooMany := len(keys) - s.limits.MaxCount
	for i, key := range keys {
		at, _ := responseid.Time(idOf(key))
		if i >= tooMany && !s.over(at) {
			break // the others are younger
		}
		switch removed := s.remove(ctx, key); {
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

// entries returns the keys of all entries, oldest first. It ignores other keys in the
// folder.
func (s *Shared) entries(ctx context.Context) ([]string, error) {
	keys, err := s.list(ctx, folder)
	if err != nil {
		return nil, err
	}
	keys = slices.DeleteFunc(keys, func(key string) bool {
		_, ours := responseid.Time(idOf(key))
		return !ours || !strings.HasSuffix(key, extension)
	})
	slices.SortFunc(keys, func(a, b string) int {
		return strings.Compare(idOf(a)[len(responseid.Prefix):], idOf(b)[len(responseid.Prefix):])
	})
	return keys, nil
}
