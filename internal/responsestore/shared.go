package responsestore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"strings"
	"time"

	"github.com/caddyserver/certmagic"
	"golang.org/x/sync/semaphore"

	"github.com/caddy-codex/caddy-codex/internal/responseid"
	"github.com/caddy-codex/caddy-codex/internal/storagecall"
)

// Shared keeps entries in Caddy's storage, which may be one for several nodes
// and outlives them all. The id of an entry tells its age; a sweep now and then
// deletes those that are over.
type Shared struct {
	storage certmagic.Storage
	limits  Limits
	logger  *slog.Logger
	now     func() time.Time
	calls   *storagecall.Limit
	memory  *semaphore.Weighted
	sweeper sweeper
}

// Limits bound a [Shared].
type Limits struct {
	MaxAge   time.Duration // of an entry, from the making of its id
	MaxCount int           // of entries, of all nodes together
}

// folder holds all entries.
const folder = "codex/responses"

// extension ends the keys of all entries.
const extension = ".json"

// maxEntry bounds one entry in the storage, in bytes.
const maxEntry = 64 << 20

// transferMemory bounds the memory of all entries together that are on their way
// from or to a storage, in bytes: in all stores of this process.
const transferMemory = 4 * maxEntry

var transfers = semaphore.NewWeighted(transferMemory)

// NewShared makes a store over a storage, and starts its sweeper, which Close
// ends.
func NewShared(storage certmagic.Storage, limits Limits, logger *slog.Logger) *Shared {
	return newSharedAt(storage, limits, logger, sweeps)
}

func newSharedAt(storage certmagic.Storage, limits Limits, logger *slog.Logger, sweeps *schedule) *Shared {
	s := &Shared{
		storage: storage,
		limits:  limits,
		logger:  logger,
		now:     time.Now,
		calls:   storagecall.NewLimit(maxCalls),
		memory:  transfers,
	}
	s.sweeper.start(s, sweeps)
	return s
}

// Close ends the sweeper. Requests that still run may use the store afterwards.
func (s *Shared) Close() { s.sweeper.close() }

// key is where an entry stands. An id of another form, or of one that is too
// old, has no place.
func (s *Shared) key(id string) (string, error) {
	at, ok := responseid.Time(id)
	if !ok || s.over(at) {
		return "", ErrNotFound
	}
	return folder + "/" + id + extension, nil
}

// over reports whether what was made then is too old.
func (s *Shared) over(at time.Time) bool { return at.Add(s.limits.MaxAge).Before(s.now()) }

// idOf is the id of the entry at a key.
func idOf(key string) string { return strings.TrimSuffix(path.Base(key), extension) }

// Put implements [Store].
func (s *Shared) Put(ctx context.Context, id string, e *Entry) error {
	if e.size() > maxEntry {
		return ErrTooLarge
	}
	at, err := s.key(id)
	if err != nil {
		return fmt.Errorf("the id %.64q: %w", id, err)
	}
	room, err := s.reserve(ctx, e.size())
	if err != nil {
		return err
	}
	defer room.release()
	var data bytes.Buffer
	encoder := json.NewEncoder(&data)
	encoder.SetEscapeHTML(false) // what is kept is to come back as it was
	if err := encoder.Encode(e); err != nil {
		return err
	}
	_, err = call(ctx, s, room, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.storage.Store(ctx, at, data.Bytes())
	})
	s.sweeper.put(s.limits.MaxCount)
	return err
}

// Get implements [Store]. It asks for the size of the entry first, so that there
// is room for it before it is loaded.
func (s *Shared) Get(ctx context.Context, user, id string) (*Entry, error) {
	at, err := s.key(id)
	if err != nil {
		return nil, err
	}
	info, err := call(ctx, s, nil, func(ctx context.Context) (certmagic.KeyInfo, error) { return s.storage.Stat(ctx, at) })
	if err != nil {
		return nil, err
	}
	if info.Size <= 0 { // a storage need not tell it
		info.Size = maxEntry
	}
	room, err := s.reserve(ctx, info.Size)
	if err != nil {
		return nil, err
	}
	data, err := call(ctx, s, room, func(ctx context.Context) ([]byte, error) { return s.storage.Load(ctx, at) })
	if err != nil {
		room.release()
		return nil, err
	}
	e := readEntry(data)
	if e == nil {
		room.release()
		// To its user it is lost; its time to be deleted will come.
		s.logger.Warn("a kept response cannot be read", "key", at)
		return nil, ErrNotFound
	}
	if e.User != user {
		room.release()
		return nil, ErrNotFound
	}
	e.release = room.release
	return e, nil
}

// Delete implements [Store].
func (s *Shared) Delete(ctx context.Context, user, id string) error {
	e, err := s.Get(ctx, user, id)
	if err != nil {
		return err
	}
	e.Release()
	at, err := s.key(id)
	if err != nil {
		return err
	}
	return s.remove(ctx, at)
}

func (s *Shared) remove(ctx context.Context, key string) error {
	_, err := call(ctx, s, nil, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.storage.Delete(ctx, key)
	})
	return err
}

// maxCalls bounds the calls to the storage in progress.
const maxCalls = 64

// call makes a call to the storage, which may ignore ctx. room, which may be nil,
// is held until the storage has answered. A key that does not exist is
// ErrNotFound, every other error is ErrUnavailable.
func call[T any](ctx context.Context, s *Shared, room *room, run func(context.Context) (T, error)) (T, error) {
	result, err := storagecall.Do(ctx, s.calls, room.hold, func(ctx context.Context) (T, error) {
		defer room.release()
		return run(ctx)
	})
	return result, unavailable(err)
}

func unavailable(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return ErrNotFound
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}
