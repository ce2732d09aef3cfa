package responses

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/caddyserver/certmagic"
)

// Shared keeps entries in Caddy's storage, which may be one for several nodes
// and outlives them all. Each entry knows its own end; a sweep now and then
// deletes those that are over.
type Shared struct {
	storage certmagic.Storage
	maxAge  time.Duration
	logger  *slog.Logger
	now     func() time.Time

	stop func()
	done chan struct{} // closed when the sweeper has ended
}

// folder holds all entries.
const folder = "codex/responses"

// maxEntry bounds one entry in the storage, in bytes.
const maxEntry = 64 << 20

// The pace of the sweeps. The most keys that one looks at bounds its work; the
// next one goes on where it ended.
const (
	sweepEvery = time.Hour
	sweepMost  = 10_000
	sweepTime  = 10 * time.Minute
)

// sharedEntry is an entry as it stands in the storage.
type sharedEntry struct {
	Until time.Time `json:"until"`
	Entry
}

// NewShared makes a store over a storage, and starts its sweeper, which Close
// ends.
func NewShared(storage certmagic.Storage, maxAge time.Duration, logger *slog.Logger) *Shared {
	ctx, stop := context.WithCancel(context.Background())
	s := &Shared{storage: storage, maxAge: maxAge, logger: logger, now: time.Now, stop: stop, done: make(chan struct{})}
	go s.sweepNowAndThen(ctx)
	return s
}

// Close ends the sweeper.
func (s *Shared) Close() {
	s.stop()
	<-s.done
}

// key is where an entry stands. An id of another form has none.
func key(id string) (string, error) {
	if !ValidID(id) {
		return "", ErrNotFound
	}
	return folder + "/" + id + ".json", nil
}

// Put implements [Store].
func (s *Shared) Put(ctx context.Context, id string, e *Entry) error {
	if e.size() > maxEntry {
		return ErrTooLarge
	}
	at, err := key(id)
	if err != nil {
		return fmt.Errorf("the id %.64q has no valid form", id)
	}
	var data bytes.Buffer
	encoder := json.NewEncoder(&data)
	encoder.SetEscapeHTML(false) // what is kept is to come back as it was
	if err := encoder.Encode(sharedEntry{s.now().Add(s.maxAge), *e}); err != nil {
		return err
	}
	return s.storage.Store(ctx, at, data.Bytes())
}

// Get implements [Store].
func (s *Shared) Get(ctx context.Context, user, id string) (*Entry, error) {
	at, err := key(id)
	if err != nil {
		return nil, err
	}
	e, err := s.load(ctx, at)
	if err != nil {
		return nil, err
	}
	if e.User != user || e.Until.Before(s.now()) {
		return nil, ErrNotFound
	}
	return &e.Entry, nil
}

func (s *Shared) load(ctx context.Context, at string) (*sharedEntry, error) {
	data, err := s.storage.Load(ctx, at)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	e := new(sharedEntry)
	if err := json.Unmarshal(data, e); err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", at, err)
	}
	return e, nil
}

// Delete implements [Store].
func (s *Shared) Delete(ctx context.Context, user, id string) error {
	if _, err := s.Get(ctx, user, id); err != nil {
		return err
	}
	at, err := key(id)
	if err != nil {
		return err
	}
	err = s.storage.Delete(ctx, at)
	if errors.Is(err, fs.ErrNotExist) {
		return ErrNotFound // another node was quicker
	}
	return err
}

// sweepNowAndThen sweeps until the store is closed.
func (s *Shared) sweepNowAndThen(ctx context.Context) {
	defer close(s.done)
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	last := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		limited, cancel := context.WithTimeout(ctx, sweepTime)
		next, deleted, err := s.sweep(limited, last)
		cancel()
		if ctx.Err() != nil {
			return
		}
		last = next
		if err != nil {
			s.logger.Warn("old responses could not all be deleted", "error", err)
		}
		if deleted > 0 {
			s.logger.Debug("old responses were deleted", "count", deleted)
		}
	}
}

// sweep deletes the entries that are over, of the keys behind last. It returns
// the key to go on behind; empty: from the start.
func (s *Shared) sweep(ctx context.Context, last string) (next string, deleted int, err error) {
	keys, err := s.storage.List(ctx, folder, false)
	if errors.Is(err, fs.ErrNotExist) {
		return "", 0, nil
	}
	if err != nil {
		return last, 0, err
	}
	for _, at := range batch(keys, last) {
		if err := ctx.Err(); err != nil {
			return next, deleted, err
		}
		next = at
		over, overErr := s.over(ctx, at)
		if overErr == nil && over {
			overErr = s.storage.Delete(ctx, at)
			deleted++
		}
		if overErr != nil && !errors.Is(overErr, fs.ErrNotExist) && !errors.Is(overErr, ErrNotFound) {
			err = overErr
		}
	}
	return next, deleted, err
}

// over reports whether an entry is past its end. Most are known to be young by
// their date alone.
func (s *Shared) over(ctx context.Context, at string) (bool, error) {
	info, err := s.storage.Stat(ctx, at)
	if err != nil {
		return false, err
	}
	if !info.Modified.IsZero() && info.Modified.Add(s.maxAge).After(s.now()) {
		return false, nil
	}
	e, err := s.load(ctx, at)
	if err != nil {
		return false, err // a broken entry is of no use, but not ours to delete
	}
	return e.Until.Before(s.now()), nil
}
