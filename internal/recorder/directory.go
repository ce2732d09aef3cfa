package recorder

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"time"
)

const (
	fileTime     = "20060102T150405.000000000Z" // begins the name of a file; so the names are in the order of time
	fileSize     = 4 << 10                      // what a file takes up at least, in bytes
	tidyInterval = time.Hour
)

var (
	unsafeInNames = regexp.MustCompile(`[^A-Za-z0-9-]`)
	ownFile       = regexp.MustCompile(`^\d{8}T\d{6}\.\d{9}Z-.*\.jsonl$`)
)

// Directory keeps recordings as files that only the system's user can read. It removes the oldest ones that have no
// room any more, and all that are too old, but no other files. Its methods are safe for concurrent use. Several
// directories may have the same path.
type Directory struct {
	Path   string
	Size   int64 // of all files, in bytes
	Age    time.Duration
	Logger *slog.Logger

	mu      sync.Mutex
	written int64 // since the last call of prune
	err     error
}

// Tidy removes what is too old, now and from time to time, until ctx ends.
func (d *Directory) Tidy(ctx context.Context) {
	for ctx.Err() == nil {
		d.do(d.prune)
		select {
		case <-ctx.Done():
		case <-time.After(tidyInterval):
		}
	}
}

// Err returns why recordings cannot be kept at the moment, or nil.
func (d *Directory) Err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

// Store keeps the recording of the request with an id, which may have any characters.
func (d *Directory) Store(id string, recording []byte) {
	d.do(func() error {
		name := time.Now().UTC().Format(fileTime) + "-" + unsafeInNames.ReplaceAllString(id, "_") + ".jsonl"
		f, err := os.OpenFile(filepath.Join(d.Path, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		_, err = f.Write(recording)
		if err = errors.Join(err, f.Close()); err != nil {
			return errors.Join(err, os.Remove(f.Name())) // a part would be no recording
		}
		if d.written += max(int64(len(recording)), fileSize); d.written > d.Size/16 {
			err = d.prune()
		}
		return err
	})
}

// do makes the directory if it is missing, calls f, and logs when what was fine fails, or is fine again.
func (d *Directory) do(f func() error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := os.MkdirAll(d.Path, 0o700)
	if err == nil {
		err = f()
	}
	switch before := d.err; {
	case err != nil && before == nil:
		d.Logger.Error("recordings cannot be stored: make room, or let this user write the directory", "directory", d.Path, "error", err)
	case err == nil && before != nil:
		d.Logger.Info("recordings are stored again", "directory", d.Path)
	}
	d.err = err
}

// prune removes what is too old, and what takes up more than 15/16 of Size: the rest has room until the next call.
func (d *Directory) prune() error {
	d.written = 0
	files, err := os.ReadDir(d.Path)
	total, oldest := int64(0), time.Now().Add(-d.Age).UTC().Format(fileTime)
	for _, file := range slices.Backward(files) { // the newest first
		info, infoErr := file.Info()
		if infoErr != nil || !ownFile.MatchString(file.Name()) {
			continue
		}
		if total += max(info.Size(), fileSize); total <= d.Size-d.Size/16 && file.Name() >= oldest {
			continue
		}
		if err := os.Remove(filepath.Join(d.Path, file.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return err
}
