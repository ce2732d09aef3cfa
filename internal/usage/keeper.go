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

	"github.com/caddy-codex/caddy-codex/internal/storagecall"
)

const (
	// saveInterval is how often a changed book is stored.
	saveInterval = time.Minute
	// storageTimeout bounds one call to a storage.
	storageTimeout = 10 * time.Second
	// asideSuffix is added to the key of a document that is set aside.
	asideSuffix = ".broken"
)

// Storage keeps documents. Caddy's storage implements it.
type Storage interface {
	// Load returns the value of a key. It returns fs.ErrNotExist if there is none.
	Load(ctx context.Context, key string) ([]byte, error)
	Store(ctx context.Context, key string, value []byte) error
}

// Place is where a book is stored.
type Place struct {
	Storage Storage
	Key     string
	Logger  *slog.Logger
}

// Keeper stores a book and restores it. It runs while it is held, and uses the
// place of the newest hold.
type Keeper struct {
	book  *Book
	calls *storagecall.Limit

	mu    sync.Mutex // guards holds and loop
	holds []*hold
	loop  *loop

	restored bool // the book was restored or stored; used by the loop only
}

// hold is a place with its state, which only the loop uses.
type hold struct {
	Place
	loaded bool   // the document at the place may be overwritten
	saved  uint64 // Book.changes when the book was last stored there
}

// loop is a running goroutine of a Keeper. It does not lock Keeper.mu.
type loop struct {
	moved chan *hold // the hold to use from now on
	stop  chan struct{}
	done  chan struct{}
}

// NewKeeper returns a Keeper of book.
func NewKeeper(book *Book) *Keeper {
	return &Keeper{book: book, calls: storagecall.NewLimit(1)}
}

// Hold keeps the book at place until release is called. The last release waits
// until the book is stored.
func (k *Keeper) Hold(place Place) (release func()) {
	h := &hold{Place: place}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.holds = append(k.holds, h)
	if k.loop == nil {
		k.loop = &loop{make(chan *hold, 1), make(chan struct{}), make(chan struct{})}
		go k.run(k.loop)
	}
	k.move()
	return sync.OnceFunc(func() { k.release(h) })
}

func (k *Keeper) release(h *hold) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.holds = slices.DeleteFunc(k.holds, func(other *hold) bool { return other == h })
	if len(k.holds) > 0 {
		k.move()
		return
	}
	close(k.loop.stop)
	<-k.loop.done // takes a few times storageTimeout at most
	k.loop = nil
}

// move sends the newest hold to the loop. The caller holds k.mu.
func (k *Keeper) move() {
	select {
	case <-k.loop.moved: // replace one that the loop has not received yet
	default:
	}
	k.loop.moved <- k.holds[len(k.holds)-1]
}

// run stores the book every saveInterval and when it is stopped.
func (k *Keeper) run(l *loop) {
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

// load restores the book from a place if that has not happened yet, and reports
// whether the place may be overwritten.
func (k *Keeper) load(at *hold) bool {
	if at.loaded {
		return true
	}
	content, err := limited(k, func(ctx context.Context) ([]byte, error) { return at.Storage.Load(ctx, at.Key) })
	switch {
	case errors.Is(err, fs.ErrNotExist):
		at.loaded = true
		return true
	case err != nil:
		at.Logger.Error("the usage of before cannot be loaded; it is tried again", "key", at.Key, "error", err)
		return false
	}
	d, err := decode(content)
	switch {
	case err != nil:
		at.loaded = k.setAside(at, content, err)
	case !k.restored:
		k.book.restore(d)
		k.restored, at.loaded = true, true
	case d.ID == k.book.id:
		at.loaded = true
	default:
		at.loaded = k.setAside(at, content, errOther)
	}
	return at.loaded
}

// errOther is the reason to set aside a document of this node in a storage that
// the configuration has moved to. Its counts are not added: a second reload could
// add them twice.
var errOther = errors.New("it does not belong to what is counted now")

// setAside stores a document under another key, for the operator to look at.
func (k *Keeper) setAside(at *hold, content []byte, reason error) bool {
	key := at.Key + asideSuffix
	if err := k.store(at, key, content); err != nil {
		at.Logger.Error("the stored usage cannot be used, nor kept aside", "key", at.Key, "reason", reason, "error", err)
		return false
	}
	at.Logger.Error("the stored usage cannot be used; it is kept aside", "key", at.Key, "kept_as", key, "error", reason)
	return true
}

// save stores the book if it has changed. It does not overwrite a document that
// could not be loaded.
func (k *Keeper) save(at *hold) {
	if !k.load(at) || k.book.changed() == at.saved {
		return
	}
	document, changes := k.book.document()
	content, err := json.Marshal(document)
	if err == nil {
		err = k.store(at, at.Key, content)
	}
	if err != nil {
		at.Logger.Error("the usage cannot be stored; it is tried again", "key", at.Key, "error", err)
		return
	}
	at.saved, k.restored = changes, true
}

func (k *Keeper) store(at *hold, key string, content []byte) error {
	_, err := limited(k, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, at.Storage.Store(ctx, key, content)
	})
	return err
}

// limited makes a call to the storage, for at most storageTimeout.
func limited[T any](k *Keeper, call func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), storageTimeout,
		fmt.Errorf("the storage has not answered within %s", storageTimeout))
	defer cancel()
	return storagecall.Do(ctx, k.calls, nil, call)
}
