package quota

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"
)

const (
	// AsideSuffix is added to the name of a file whose document cannot be used.
	AsideSuffix = ".broken"
	// DocumentVersion is the only version of documents that this release reads.
	DocumentVersion = 1
	// maxDocument bounds a document, in bytes. The largest, of the package usage, has up to 30 MB.
	maxDocument = 64 << 20
	// logInterval is how often a failure that lasts is logged.
	logInterval = time.Minute
)

// Book is what a [Keeper] stores. Its methods are safe for concurrent use.
type Book interface {
	// Document returns a document, and how often the book has changed until now. The document is a struct
	// with the member "version", the [DocumentVersion], and is stored as JSON. It is nil if the number of changes
	// equals since: the book has not changed.
	Document(since uint64) (document any, changes uint64)
	// Restore adds the counts of a document to the book. An error means that the document cannot be read.
	Restore(document []byte) error
}

// Keeper stores a book in a file: regularly from the first call of Hold until the last release, and after
// that by Flush.
type Keeper struct {
	book     Book
	name     string
	interval time.Duration

	mu      sync.Mutex
	holders int    // calls of Hold that were not released yet
	store   func() // stores the book in its file; set by a call of Hold if there is no other holder
	stop    chan struct{}
	done    sync.WaitGroup
	loaded  bool // load has succeeded, so the file may be overwritten

	// Hold uses the next two fields before run starts. Then only run uses them and, after the end of run,
	// Flush.
	savedChanges uint64    // the changes of the book when it was last stored
	lastLogged   time.Time // when a failure was last logged
}

// NewKeeper returns a Keeper that stores a changed book each interval. name is for logs.
func NewKeeper(book Book, name string, interval time.Duration) *Keeper {
	return &Keeper{book: book, name: name, interval: interval}
}

// Hold stores the book in file until release is called. The first call restores the book from file
// or, if file does not exist, from the first of oldNames that exists: these are older names of the
// file. The last release waits until the book is stored.
func (k *Keeper) Hold(logger *slog.Logger, file string, oldNames ...string) (release func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.holders++; k.holders == 1 {
		k.load(logger, file, oldNames)
		stop, store := make(chan struct{}), func() {
			if k.load(logger, file, oldNames); k.loaded { // load may have failed before
				k.save(logger, file)
			}
		}
		k.stop, k.store = stop, store
		k.done.Go(func() { k.run(stop, store) })
	}
	return sync.OnceFunc(func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.holders--; k.holders == 0 {
			close(k.stop)
			k.done.Wait()
		}
	})
}

// Flush stores what was counted after the last release. It does nothing if the book was never held, or
// while it is held.
func (k *Keeper) Flush() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.holders == 0 && k.store != nil {
		k.store()
	}
}

func (k *Keeper) run(stop chan struct{}, store func()) {
	ticks := time.NewTicker(k.interval)
	defer ticks.Stop()
	for running := true; running; {
		select {
		case <-stop:
			running = false
		case <-ticks.C:
		}
		store()
	}
}

func (k *Keeper) logFailure(logger *slog.Logger, message string, err error) {
	if time.Since(k.lastLogged) >= logInterval {
		k.lastLogged = time.Now()
		logger.Error(message+"; it is tried again", "error", err)
	}
}

// load restores the book from file or, without that, from the first of oldNames that exists. A
// document that cannot be used is renamed, see AsideSuffix. If the file cannot be read or renamed,
// or the clock is not set, the next call tries again; otherwise later calls do nothing.
func (k *Keeper) load(logger *slog.Logger, file string, oldNames []string) {
	if k.loaded {
		return
	}
	if err := checkClock(time.Now()); err != nil {
		k.logFailure(logger, "the file of "+k.name+" cannot be loaded", err)
		return
	}
	for _, path := range append([]string{file}, oldNames...) {
		content, err := readFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			k.logFailure(logger, "the file of "+k.name+" cannot be loaded", err)
			return
		}
		if reason := k.restore(content); reason != nil {
			if err := os.Rename(path, path+AsideSuffix); err != nil {
				k.logFailure(logger, "a document of "+k.name+" cannot be used, since "+reason.Error()+", nor kept aside", err)
				return
			}
			logger.Error("a document of "+k.name+" cannot be used; it is kept aside", "kept_as", path+AsideSuffix, "error", reason)
		}
		break
	}
	k.loaded = true
}

// checkClock returns an error if the year is before 2000: without power, some small computers begin in
// 1970. The counts of a document are then in the future. The usage would drop them. The ledger would move
// them to the present, and they would expire once the clock is set.
func checkClock(now time.Time) error {
	if now.Year() < 2000 {
		return fmt.Errorf("the clock of this computer is not set: it says %s", now.Format(time.RFC3339))
	}
	return nil
}

func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, maxDocument+1))
}

func (k *Keeper) restore(content []byte) error {
	if len(content) > maxDocument {
		return fmt.Errorf("it has more than %d bytes", maxDocument)
	}
	var d struct{ Version int }
	if err := json.Unmarshal(content, &d); err != nil {
		return err
	}
	if d.Version != DocumentVersion {
		return fmt.Errorf("its version is %d, not %d", d.Version, DocumentVersion)
	}
	return k.book.Restore(content)
}

func (k *Keeper) save(logger *slog.Logger, file string) {
	document, changes := k.book.Document(k.savedChanges)
	if document == nil {
		return
	}
	content, err := json.Marshal(document)
	if err == nil {
		err = writeFile(file, content)
	}
	if err != nil {
		k.logFailure(logger, k.name+" cannot be stored", err)
		return
	}
	k.savedChanges = changes
}

// writeFile writes a file as a whole or not at all. Only the owner of the file can read it.
func writeFile(file string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(file+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), file)
}
