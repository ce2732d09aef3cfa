package recorder

import (
	"cmp"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	fileTime = "20060102T150405.000000000Z" // begins the names of files, which are so in the order of time
	fileSize = 4 << 10                      // what a file takes up at least, in bytes
)

var (
	ownFile       = regexp.MustCompile(`^\d{8}T\d{6}\.\d{9}Z-.*\.jsonl(\.part)?$`)
	unsafeInNames = regexp.MustCompile(`[^A-Za-z0-9-]`)
)

// Directory keeps recordings as files that only the system's user can read, and leaves other files alone. Its
// methods are safe for concurrent use. Several directories may have the same path.
type Directory struct {
	Path   string
	Size   int64         // of all files, in bytes; the oldest are removed, but not the newest
	Age    time.Duration // after which a file is removed, at the latest an hour later if there are recordings
	Logger *slog.Logger

	mu      sync.Mutex
	written int64     // bytes since the last call of prune
	pruned  time.Time // when that was

	err atomic.Pointer[error] // of the last call of Store; not guarded by mu, since a disk may hang
}

// Err returns why recordings cannot be kept at the moment, or nil.
func (d *Directory) Err() error {
	if err := d.err.Load(); err != nil {
		return *err
	}
	return nil
}

// Store keeps the recording of the request with an id, which may have any characters. Without a recording, it only
// removes files. It logs when keeping begins to fail.
func (d *Directory) Store(id string, recording []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := os.MkdirAll(d.Path, 0o700) // somebody may have removed it
	if err == nil && recording != nil {
		name := filepath.Join(d.Path, time.Now().UTC().Format(fileTime)+"-"+unsafeInNames.ReplaceAllString(id, "_")+".jsonl")
		if err = os.WriteFile(name+".part", recording, 0o600); err == nil { // this Caddy may exit meanwhile
			err = os.Rename(name+".part", name)
		}
		if err != nil {
			_ = os.Remove(name + ".part")
		}
	}
	if d.written += max(int64(len(recording)), fileSize); err == nil && (d.written > d.Size/16 || time.Since(d.pruned) > time.Hour) {
		err = d.prune()
	}
	if was := d.err.Swap(&err); err != nil && (was == nil || *was == nil) {
		d.Logger.Error("recordings cannot be stored: make room, or let this user write the directory", "directory", d.Path, "error", err)
	}
}

// prune removes what is too old, and what takes up more than 15/16 of Size beside the newest file: the rest has room
// until the next call.
func (d *Directory) prune() error {
	d.written, d.pruned = 0, time.Now()
	files, err := os.ReadDir(d.Path)
	total, oldest := int64(0), d.pruned.Add(-d.Age).UTC().Format(fileTime)
	for _, file := range slices.Backward(files) { // the newest first
		info, infoErr := file.Info()
		if infoErr != nil || !info.Mode().IsRegular() || !ownFile.MatchString(file.Name()) {
			continue
		}
		size := max(info.Size(), fileSize)
		if total += size; (total <= d.Size-d.Size/16 || total == size) && file.Name() >= oldest {
			continue
		}
		if removeErr := os.Remove(filepath.Join(d.Path, file.Name())); !errors.Is(removeErr, fs.ErrNotExist) {
			err = cmp.Or(err, removeErr)
		}
	}
	return err
}
