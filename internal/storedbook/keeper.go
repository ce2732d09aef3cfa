// Package storedbook stores what is counted or remembered in memory, so that it survives
// restarts, and moves to another storage with the configuration.
package storedbook

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/caddy-codex/caddy-codex/internal/storagecall"
)

const (
	// storageTimeout bounds a call to a storage, or all that read the documents of other nodes.
	storageTimeout = 10 * time.Second
	// logInterval is how often a failure that lasts is logged.
	logInterval = time.Minute
	// AsideSuffix is added to the key of a document that is set aside.
	AsideSuffix = ".broken"
	// version is the only version of documents that this release reads.
	version = 1
	// maxDocument bounds a document that is read, in bytes. That of the usage has 30 MB at most.
	maxDocument = 64 << 20
	// maxNodes bounds the documents of other nodes that are read.
	maxNodes = 256
)

// Book is what a [Keeper] stores. Its methods are safe for concurrent use.
type Book interface {
	// Document returns a copy and how many changes it has, or nil if it has no more than since.
	Document(since uint64) (document Document, changes uint64)
	// Restore adds the counts of a document to the book, which continues the book of the
	// document. The error means that the document cannot be read.
	Restore(document []byte) error
}

// Sharer is a [Book] that also counts what other nodes have counted.
type Sharer interface {
	// Share takes the documents of other nodes, by their keys, after the first load and after
	// each save. It returns the keys of those to delete.
	Share(documents map[string][]byte) (over []string, err error)
}

// Document is a struct that can be encoded as JSON and embeds a [Header].
type Document interface{ stamp(id string) }

// Header begins each document. A [Keeper] sets and checks it.
type Header struct {
	Version int    `json:"version"`
	ID      string `json:"id"` // of the book, and of those that continue it
}

func (h *Header) stamp(id string) { *h = Header{version, id} }

// readHeader returns the ID of a document that this release can read.
func readHeader(content []byte) (id string, err error) {
	if len(content) > maxDocument {
		return "", fmt.Errorf("it has %d bytes, more than %d", len(content), maxDocument)
	}
	var h Header
	if err := json.Unmarshal(content, &h); err != nil {
		return "", err
	}
	if h.Version != version {
		return "", fmt.Errorf("its version is %d, not %d", h.Version, version)
	}
	return h.ID, nil
}

// Keeper stores and restores a book while it is held, at the place of the newest hold.
type Keeper struct {
	book   Book
	what   string
	folder string
	every  time.Duration

	calls storagecall.Line // one at once, so that none overtakes another
	reads storagecall.Line // of other nodes' documents

	mu    sync.Mutex // guards holds and loop
	holds []*hold
	loop  *loop

	// These are used by the loop only.
	id       string // of the book, in the headers of its documents
	restored bool   // the book was restored or stored
}

// hold is a place with its state, which only the loop uses.
type hold struct {
	storage certmagic.Storage
	key     string
	logger  *slog.Logger
	loaded  bool      // the document at the place may be overwritten
	saved   uint64    // the changes of the book when it was last stored there
	logged  time.Time // when a failure was last logged
}

// loop is a running goroutine of a Keeper. It does not lock Keeper.mu.
type loop struct {
	moved chan *hold    // the hold to use from now on; closed: none
	begun chan struct{} // closed once the book was restored, or could not be
	done  chan struct{}
}

// NewKeeper returns a Keeper of a book, whose documents are in a folder of the storage. Logs
// call it what. A change is stored within every.
func NewKeeper(book Book, what, folder string, every time.Duration) *Keeper {
	return &Keeper{
		book: book, what: what, folder: folder, every: every, id: rand.Text(),
		calls: storagecall.NewLine(), reads: storagecall.NewLine(),
	}
}

// Hold keeps the book in a storage, as the document of a name, until release is called. The
// last release waits for a save. Nodes that share the storage have names of their own.
func (k *Keeper) Hold(storage certmagic.Storage, name string, logger *slog.Logger) (release func()) {
	h := &hold{storage: storage, key: path.Join(k.folder, name+".json"), logger: logger}
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

// WaitRestored waits until the book was restored, or could not be, but only up to a limit.
func (k *Keeper) WaitRestored(limit time.Duration) {
	k.mu.Lock()
	l := k.loop
	k.mu.Unlock()
	if l == nil {
		return
	}
	select {
	case <-l.begun:
	case <-time.After(limit):
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
	close(k.loop.moved)
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
	k.readOthers(at)
	close(l.begun)
	for {
		select {
		case newest, held := <-l.moved:
			if !held {
				k.save(at)
				return
			}
			at = newest
			k.load(at)
		case <-ticks.C:
			k.save(at)
			k.readOthers(at)
		}
	}
}

// failed logs a failure of a call that is tried again, once in logInterval.
func (h *hold) failed(message string, err error) {
	if h.logged.IsZero() || time.Since(h.logged) >= logInterval {
		h.logged = time.Now()
		h.logger.Error(message+"; it is tried again", "key", h.key, "error", err)
	}
}

// load restores the book from a place once, and reports whether that may be overwritten.
func (k *Keeper) load(at *hold) bool {
	if at.loaded {
		return true
	}
	content, err := limited(k.calls, func(ctx context.Context) ([]byte, error) { return at.storage.Load(ctx, at.key) })
	if err != nil {
		if at.loaded = errors.Is(err, fs.ErrNotExist); !at.loaded {
			at.failed(k.what+" of before cannot be loaded", err)
		}
		return at.loaded
	}
	id, err := readHeader(content)
	switch {
	case err == nil && !k.restored:
		if err = k.book.Restore(content); err == nil && id != "" {
			k.id = id
		}
	case err == nil && id != k.id:
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
	key := at.key + AsideSuffix
	if err := k.store(at, key, content); err != nil {
		at.failed("a document of "+k.what+" cannot be used, since "+reason.Error()+", nor kept aside", err)
		return false
	}
	at.logger.Error("a document of "+k.what+" cannot be used; it is kept aside", "key", at.key, "kept_as", key, "error", reason)
	return true
}

// save stores the book if it has changed, but not over a document that cannot be loaded.
func (k *Keeper) save(at *hold) {
	if !k.load(at) {
		return
	}
	document, changes := k.book.Document(at.saved)
	if document == nil {
		return
	}
	document.stamp(k.id)
	content, err := json.Marshal(document)
	if err == nil {
		err = k.store(at, at.key, content)
	}
	if err != nil {
		at.failed(k.what+" cannot be stored", err)
		return
	}
	at.saved, k.restored = changes, true
}

// readOthers passes on the documents of the other nodes, and deletes those that are over. A
// node that still runs stores another one with its next change.
func (k *Keeper) readOthers(at *hold) {
	book, shares := k.book.(Sharer)
	if !shares {
		return
	}
	documents, err := limited(k.reads, at.others)
	if err != nil {
		at.failed(k.what+" at other nodes cannot be read", err)
		return
	}
	for key, content := range documents {
		if _, err := readHeader(content); err != nil {
			at.failed("a document of "+k.what+" at another node cannot be used", fmt.Errorf("%s: %w", key, err))
			delete(documents, key) // the other nodes still count
		}
	}
	over, err := book.Share(documents)
	if err != nil {
		at.failed("a document of "+k.what+" at another node cannot be used", err)
	}
	for _, key := range over {
		_, err := limited(k.reads, func(ctx context.Context) (struct{}, error) { return struct{}{}, at.storage.Delete(ctx, key) })
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			at.logger.Warn("an old document of "+k.what+" cannot be deleted", "key", key, "error", err)
		}
	}
}

// others returns the documents of the other nodes, by their keys.
func (h *hold) others(ctx context.Context) (map[string][]byte, error) {
	folder, documents := path.Dir(h.key), make(map[string][]byte)
	keys, err := storagecall.List(ctx, h.storage, folder)
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		if key == h.key || path.Ext(key) != ".json" || path.Dir(key) != folder {
			continue
		}
		if len(documents) == maxNodes {
			return nil, fmt.Errorf("there are more than %d nodes in %s", maxNodes, folder)
		}
		content, err := h.storage.Load(ctx, key)
		switch {
		case err == nil:
			documents[key] = content
		case !errors.Is(err, fs.ErrNotExist): // else it was deleted just now
			return nil, err
		}
	}
	return documents, nil
}

func (k *Keeper) store(at *hold, key string, content []byte) error {
	_, err := limited(k.calls, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, at.storage.Store(ctx, key, content)
	})
	return err
}

// limited makes calls to the storage, for at most storageTimeout.
func limited[T any](line storagecall.Line, call func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), storageTimeout,
		fmt.Errorf("the storage has not answered within %s", storageTimeout))
	defer cancel()
	return storagecall.Do(ctx, line, call)
}
