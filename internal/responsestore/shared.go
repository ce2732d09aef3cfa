package responsestore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/caddy-codex/caddy-codex/internal/claims"
	"github.com/caddy-codex/caddy-codex/internal/responseid"
	"github.com/caddy-codex/caddy-codex/internal/storagecall"
)

// Shared keeps entries in Caddy's storage, which nodes may share and which outlives
// restarts. The id of an entry has its time; sweeps delete old entries.
type Shared struct {
	storage certmagic.Storage
	limits  Limits
	logger  *slog.Logger
	now     func() time.Time
	calls   *storagecall.Limit
	locks   *storagecall.Limit // calls that wait for a lock, which take as long as another node holds it
	memory  *claims.Queue      // a slot for each byte

	puts  atomic.Int64  // new entries since the last sweep
	wake  chan struct{} // starts a sweep
	stop  func()        // ends the sweeps
	swept sync.WaitGroup
}

// Limits bound a [Shared].
type Limits struct {
	MaxAge   time.Duration // age of an entry, from the time in its id
	MaxCount int           // number of entries of all nodes together
}

const (
	folder    = "codex/responses"
	extension = ".json"
)

// maxEntry bounds one entry in the storage, in bytes.
const maxEntry = 64 << 20

// transferMemory bounds the memory of all entries that the stores of this process
// transfer from or to a storage, in bytes.
const transferMemory = 4 * maxEntry

var transfers = memoryOf(transferMemory, transferMemory/2)

// memoryOf returns the memory of transfers in bytes, of which a user may have a part. Those that
// wait for it are served in turn, user by user, and their contexts end the waiting.
func memoryOf(bytes, perUser int) *claims.Queue {
	return claims.NewQueue(claims.QueueOptions{Concurrent: bytes, PerUser: perUser, Queue: maxWaiting, Wait: time.Minute})
}

// maxWaiting is how many transfers may wait for memory.
const maxWaiting = 4096

// NewShared returns a store in a storage, and a goroutine that sweeps it until Close.
func NewShared(storage certmagic.Storage, limits Limits, logger *slog.Logger) *Shared {
	s := &Shared{
		storage: storage,
		limits:  limits,
		logger:  logger,
		now:     time.Now,
		calls:   storagecall.NewLimit(maxCalls, maxCalls/2),
		locks:   storagecall.NewLimit(maxCalls, maxCalls/2),
		memory:  transfers,
		wake:    make(chan struct{}, 1),
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.swept.Go(func() { s.sweepUntil(ctx) })
	return s
}

// Close ends the sweeps. Requests in progress may still use the store.
func (s *Shared) Close() {
	s.stop()
	s.swept.Wait()
}

// key returns the key of an entry. It returns ErrNotFound if the id is invalid or too old.
func (s *Shared) key(id string) (string, error) {
	at, ok := responseid.Time(id)
	if !ok || s.over(at) {
		return "", ErrNotFound
	}
	return entryKey(id), nil
}

func entryKey(id string) string { return folder + "/" + id + extension }

func (s *Shared) over(at time.Time) bool { return at.Add(s.limits.MaxAge).Before(s.now()) }

// Put implements [Store].
func (s *Shared) Put(ctx context.Context, id string, e *Entry) error {
	if e.Size() > maxEntry {
		return ErrTooLarge
	}
	at, err := s.key(id)
	if err != nil {
		return fmt.Errorf("the id %.64q: %w", id, err)
	}
	room, err := s.reserve(ctx, e.User, e.Size())
	if err != nil {
		return err
	}
	defer room.release()
	var data bytes.Buffer
	encoder := json.NewEncoder(&data)
	encoder.SetEscapeHTML(false) // must come back unchanged
	if err := encoder.Encode(e); err != nil {
		return err
	}
	err = s.do(ctx, e.User, room, func(ctx context.Context) error { return s.storage.Store(ctx, at, data.Bytes()) })
	s.countPut()
	return err
}

// Get implements [Store].
func (s *Shared) Get(ctx context.Context, user, id string) (*Entry, error) {
	at, err := s.key(id)
	if err != nil {
		return nil, err
	}
	data, release, err := s.load(ctx, user, at, maxEntry)
	if err != nil {
		return nil, err
	}
	e := readEntry(data)
	if e == nil {
		s.logger.Warn("a kept response cannot be read", "key", at) // a sweep deletes it in time
	}
	if e == nil || e.User != user {
		release()
		return nil, ErrNotFound
	}
	e.release = release
	return e, nil
}

// load reads a value for a user, for whose size it reserves memory first; most is assumed if the
// storage does not report the size. The caller calls release.
func (s *Shared) load(ctx context.Context, user, key string, most int64) (value []byte, release func(), err error) {
	info, err := call(ctx, s, user, nil, func(ctx context.Context) (certmagic.KeyInfo, error) { return s.storage.Stat(ctx, key) })
	if err != nil {
		return nil, nil, err
	}
	if info.Size <= 0 {
		info.Size = most
	}
	room, err := s.reserve(ctx, user, info.Size)
	if err != nil {
		return nil, nil, err
	}
	value, err = call(ctx, s, user, room, func(ctx context.Context) ([]byte, error) { return s.storage.Load(ctx, key) })
	if err != nil {
		room.release()
		return nil, nil, err
	}
	return value, room.release, nil
}

// Delete implements [Store].
func (s *Shared) Delete(ctx context.Context, user, id string) error {
	e, err := s.Get(ctx, user, id)
	if err != nil {
		return err
	}
	e.Release()
	if responseid.ValidConversation(id) { // it may be updated at the same time
		unlock, err := s.lock(ctx, user, id)
		if err != nil {
			return err
		}
		defer unlock()
	}
	return s.remove(ctx, user, entryKey(id))
}

func (s *Shared) remove(ctx context.Context, user, key string) error {
	return s.do(ctx, user, nil, func(ctx context.Context) error { return s.storage.Delete(ctx, key) })
}

// list returns the keys in a folder, which may be absent.
func (s *Shared) list(ctx context.Context, folder string) ([]string, error) {
	return call(ctx, s, "", nil, func(ctx context.Context) ([]string, error) { return storagecall.List(ctx, s.storage, folder) })
}

// maxCalls bounds the calls to the storage in progress.
const maxCalls = 64

// call makes a call to the storage for a user, or for the server itself if that is empty. The
// storage may ignore ctx. room, which may be nil,
// is held until the storage has answered. A key that does not exist is
// ErrNotFound, every other error is ErrUnavailable.
func call[T any](ctx context.Context, s *Shared, user string, room *room, run func(context.Context) (T, error)) (T, error) {
	result, err := storagecall.Do(ctx, s.calls, user, room.hold, func(ctx context.Context) (T, error) {
		defer room.release()
		return run(ctx)
	})
	return result, unavailable(err)
}

// do is call without a result.
func (s *Shared) do(ctx context.Context, user string, room *room, run func(context.Context) error) error {
	_, err := call(ctx, s, user, room, func(ctx context.Context) (struct{}, error) { return struct{}{}, run(ctx) })
	return err
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

func unlessMissing(err error) error {
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// room is the memory of one entry that is transferred from or to a storage. It is returned when all
// holders have released it. One of them may be a call to the storage whose caller has left.
type room struct {
	memory  claims.Slots
	holders atomic.Int32
}

// reserve waits for the memory of a user's entry with this size. The entry is in memory
// twice, encoded and decoded.
func (s *Shared) reserve(ctx context.Context, user string, size int64) (*room, error) {
	memory, err := s.memory.Acquire(ctx, user, int(min(2*size, int64(s.memory.Heaviest()))))
	if err != nil {
		return nil, unavailable(err)
	}
	r := &room{memory: memory}
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
		r.memory.Release()
	}
}
