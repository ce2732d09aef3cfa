// Package storedbook stores what is counted or remembered in memory, so that it survives
// restarts, and moves to another storage with the configuration.
package storedbook

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
	// storageTimeout bounds one call to a storage.
	storageTimeout = 10 * time.Second
	// logInterval is how often a failure that lasts is logged.
	logInterval = time.Minute
	// AsideSuffix is added to the key of a document that is set aside.
	AsideSuffix = ".broken"
)

// Book is what a [Keeper] stores. Its methods are safe for concurrent use.
type Book interface {
	// Document returns a copy that can be encoded as JSON, and how many changes it has.
	Document() (document any, changes uint64)
	// Changes returns how often the book has changed.
	Changes() uint64
	// Restore adds the counts of a document to the book, which continues the book of the
	// document. The error means that the document cannot be read.
	Restore(document []byte) error
	// Owns reports whether the documents with an ID are older copies of this book.
	Owns(id string) bool
}

// Header begins each document.
type Header struct {
	Version int    `json:"version"` // [Version]
	ID      string `json:"id"`      // of the book, and of those that continue it
}

const (
	// Version is the only version of documents that this release reads.
	Version = 1
	// maxDocument bounds a document that is read, in bytes. That of the usage has 30 MB at most.
	maxDocument = 64 << 20
)

func (h *Header) check() error {
	if h.Version != Version {
		return fmt.Errorf("its version is %d, not %d", h.Version, Version)
	}
	return nil
}

// Decode reads a document into a struct that embeds a [Header].
func Decode(content []byte, into interface{ check() error }) error {
	if len(content) > maxDocument {
		return fmt.Errorf("it has %d bytes, more than %d", len(content), maxDocument)
	}
	if err := json.Unmarshal(content, into); err != nil {
		return err
	}
	return into.check()
}

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
	Then    func() // run after each save, and after the first load; nil: nothing is
}

// Keeper stores and restores a book while it is held, at the place of the newest hold.
type Keeper struct {
	book  Book
	what  string
	every time.Duration
	calls *storagecall.Limit

	mu    sync.Mutex // guards holds and loop
	holds []*hold
	loop  *loop

	restored bool // the book was restored or stored; used by the loop only
}

// hold is a place with its state, which only the loop uses.
type hold struct {
	Place
	loaded bool      // the document at the place may be overwritten
	saved  uint64    // Book.Changes when the book was last stored there
	logged time.Time // when a failure was last logged
}

// loop is a running goroutine of a Keeper. It does not lock Keeper.mu.
type loop struct {
	moved chan *hold // the hold to use from now on
	stop  chan struct{}
	begun chan struct{} // closed once the book was restored, or could not be
	done  chan struct{}
}

// NewKeeper returns a Keeper of a book. Logs call it what. A change is stored within every.
func NewKeeper(book Book, what string, every time.Duration) *Keeper {
	return &Keeper{book: book, what: what, every: every, calls: storagecall.NewLimit(1)}
}

// Hold keeps the book at place until release is called. The last release waits for a save.
func (k *Keeper) Hold(place Place) (release func()) {
	if place.Then == nil {
		place.Then = func() {}
	}
	h := &hold{Place: place}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.holds = append(k.holds, h)
	if k.loop == nil {
		k.loop = &loop{make(chan *hold, 1), make(chan struct{}), make(chan struct{}), make(chan struct{})}
		go k.run(k.loop)
	}
	k.move()
	return sync.OnceFunc(func() { k.release(h) })
}

// WaitRestored waits until the book was restored, or could not be, but only up to a limit.
func (k *Keeper) WaitRestored(limit time.Duration) {
	k.mu.Lock()
	l := k.loop
	k.mu.Unlock()
	if l == nil {
		return
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-l.begun:
	case <-timer.C:
	}
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

// run stores the book regularly and when it is stopped.
func (k *Keeper) run(l *loop) {
	defer close(l.done)
	ticks := time.NewTicker(k.every)
	defer ticks.Stop()
	at := <-l.moved
	k.load(at)
	at.Then()
	close(l.begun)
	for {
		select {
		case at = <-l.moved:
			k.load(at)
		case <-ticks.C:
			k.save(at)
			at.Then()
		case <-l.stop:
			k.save(at)
			return
		}
	}
}

// failed logs a failure of a call that is tried again, once in logInterval.
func (h *hold) failed(message string, err error) {
	if h.logged.IsZero() || time.Since(h.logged) >= logInterval {
		h.logged = time.Now()
		h.Logger.Error(message+"; it is tried again", "key", h.Key, "error", err)
	}
}

// load restores the book from a place once, and reports whether that may be overwritten.
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
		at.failed(k.what+" of before cannot be loaded", err)
		return false
	}
	var header Header
	if !k.restored {
		err = k.book.Restore(content)
	} else if err = Decode(content, &header); err == nil && !k.book.Owns(header.ID) {
		err = errOther
	}
	if err == nil {
		k.restored, at.loaded = true, true
	} else {
		at.loaded = k.setAside(at, content, err)
	}
	return at.loaded
}

// errOther sets aside a document of this node in a storage that the configuration has moved
// to. Its counts are not added: a second reload could add them twice.
var errOther = errors.New("it does not belong to what is counted now")

// setAside stores a document under another key, for the operator to look at.
func (k *Keeper) setAside(at *hold, content []byte, reason error) bool {
	key := at.Key + AsideSuffix
	if err := k.store(at, key, content); err != nil {
		at.failed("a document of "+k.what+" cannot be used, since "+reason.Error()+", nor kept aside", err)
		return false
	}
	at.Logger.Error("a document of "+k.what+" cannot be used; it is kept aside", "key", at.Key, "kept_as", key, "error", reason)
	return true
}

// save stores the book if it has changed, but not over a document that cannot be loaded.
func (k *Keeper) save(at *hold) {
	if !k.load(at) || k.book.Changes() == at.saved {
		return
	}
	document, changes := k.book.Document()
	content, err := json.Marshal(document)
	if err == nil {
		err = k.store(at, at.Key, content)
	}
	if err != nil {
		at.failed(k.what+" cannot be stored", err)
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
