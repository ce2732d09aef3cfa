package usage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"sync"
	"time"
)

const (
	// saveInterval is how often a book that has changed is stored.
	saveInterval = time.Minute
	// storageTimeout bounds one access to a storage.
	storageTimeout = 10 * time.Second
	// broken is added to the key of a document that cannot be read.
	broken = ".broken"
)

// Storage keeps documents. Caddy's storage is one.
type Storage interface {
	// Load returns the value of a key; fs.ErrNotExist: there is none.
	Load(ctx context.Context, key string) ([]byte, error)
	Store(ctx context.Context, key string, value []byte) error
}

// Place is where a book is kept.
type Place struct {
	Storage Storage
	Key     string
	Logger  *slog.Logger
}

// Keeper stores a book and brings it back. It works while somebody holds it,
// at the place of the last holder.
type Keeper struct {
	book   *Book
	mu     sync.Mutex // of holders and loop
	held   []*holding
	loop   *loop
	stored bool // the book was stored or brought back; the loop's own
}

// holding is a place with what is known of it. All but the place is the loop's
// own.
type holding struct {
	Place
	loaded bool   // what was there is in the book, or known to be none
	saved  uint64 // how often the book had changed when it was stored there
}

// loop is the goroutine that works. It takes no lock of its keeper's.
type loop struct {
	moved chan *holding // where the book is to be kept from now on
	stop  chan struct{}
	done  chan struct{}
}

// NewKeeper returns a keeper of a book.
func NewKeeper(book *Book) *Keeper { return &Keeper{book: book} }

// Hold keeps the book at a place until release. The last release waits until
// the book is stored.
func (k *Keeper) Hold(place Place) (release func()) {
	h := &holding{Place: place}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.held = append(k.held, h)
	if k.loop == nil {
		k.loop = &loop{make(chan *holding, 1), make(chan struct{}), make(chan struct{})}
		go k.work(k.loop)
	}
	k.move()
	return sync.OnceFunc(func() { k.release(h) })
}

func (k *Keeper) release(h *holding) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.held = slices.DeleteFunc(k.held, func(other *holding) bool { return other == h })
	if len(k.held) > 0 {
		k.move()
		return
	}
	close(k.loop.stop)
	<-k.loop.done // after storageTimeout a few times at most
	k.loop = nil
}

// move tells the loop where the book is to be kept. The lock is held.
func (k *Keeper) move() {
	select {
	case <-k.loop.moved: // it has not seen the last one yet
	default:
	}
	k.loop.moved <- k.held[len(k.held)-1]
}

// work stores the book now and then, and at the end.
func (k *Keeper) work(l *loop) {
	defer close(l.done)
	ticks := time.NewTicker(saveInterval)
	defer ticks.Stop()
	at := <-l.moved
	k.load(at)
	for {
		select {
		case at = <-l.moved:
			k.load(at)
		case <-ticks.C:
			k.save(at)
		case <-l.stop:
			k.save(at)
			return
		}
	}
}

// load brings back what is stored at a place, once. It reports whether the
// place may be written.
func (k *Keeper) load(at *holding) bool {
	if at.loaded {
		return true
	}
	content, err := within(at, func(ctx context.Context) ([]byte, error) { return at.Storage.Load(ctx, at.Key) })
	switch {
	case errors.Is(err, fs.ErrNotExist):
		at.loaded = true
		return true
	case err != nil:
		at.Logger.Error("the usage of before cannot be loaded; it is tried again", "key", at.Key, "error", err)
		return false
	}
	d, err := decode(content)
	if err != nil {
		at.loaded = k.putAside(at, content, err)
		return at.loaded
	}
	k.book.merge(d, !k.stored)
	k.stored, at.loaded = true, true
	return true
}

// putAside keeps a document that cannot be read, for somebody to look at.
func (k *Keeper) putAside(at *holding, content []byte, reason error) bool {
	key := at.Key + broken
	_, err := within(at, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, at.Storage.Store(ctx, key, content)
	})
	if err != nil {
		at.Logger.Error("the stored usage cannot be read, nor kept aside", "key", at.Key, "reason", reason, "error", err)
		return false
	}
	at.Logger.Error("the stored usage cannot be read; it is kept aside, and counting begins anew", "key", at.Key, "kept_as", key, "error", reason)
	return true
}

// save stores the book if it has changed. A place whose document was not read
// is not written.
func (k *Keeper) save(at *holding) {
	if !k.load(at) || k.book.changed() == at.saved {
		return
	}
	document, changes := k.book.document()
	content, err := json.Marshal(document)
	if err == nil {
		_, err = within(at, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, at.Storage.Store(ctx, at.Key, content)
		})
	}
	if err != nil {
		at.Logger.Error("the usage cannot be stored; it is tried again", "key", at.Key, "error", err)
		return
	}
	at.saved, k.stored = changes, true
}

// within bounds an access to a storage, also to one that does not heed its
// context: it is then left behind, and its answer is dropped.
func within[T any](at *holding, access func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), storageTimeout,
		fmt.Errorf("the storage has not answered within %s", storageTimeout))
	type answer struct {
		value T
		err   error
	}
	answered := make(chan answer, 1)
	go func() {
		defer cancel()
		value, err := access(ctx)
		answered <- answer{value, err}
	}()
	select {
	case a := <-answered:
		return a.value, a.err
	case <-ctx.Done():
	}
	// Both may be true.
	select {
	case a := <-answered:
		return a.value, a.err
	default:
		return *new(T), context.Cause(ctx)
	}
}
