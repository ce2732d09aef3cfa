package apikeys

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"sync/atomic"
	"time"
)

const (
	// pollInterval is how often a file is checked for changes.
	pollInterval = time.Second
	// maxSize bounds a file, in bytes.
	maxSize = 16 << 20
)

// File is a file of API keys. After a call of Watch, it reads the file again whenever the file
// changes. A File is safe for concurrent use.
type File struct {
	path   string
	logger *slog.Logger
	set    atomic.Pointer[Set]

	// After Open, only the goroutine of Watch uses the next four fields.
	info       fs.FileInfo       // of the version that was read last, even if it had an error
	sum        [sha256.Size]byte // of the content of that version
	recheck    bool              // poll reads the file even if it seems unchanged: it may have changed without a new modification time
	unreadable bool              // the last attempt to read the file failed, and this was logged

	stop func()
}

// Open reads a file of API keys. An error names the file and, if possible, the line.
func Open(path string, logger *slog.Logger) (*File, error) {
	f := &File{path: path, logger: logger, stop: func() {}}
	set, _, err := f.load()
	if err != nil {
		return nil, err
	}
	f.set.Store(set)
	return f, nil
}

// noKeys is the empty set that Set returns for a nil File.
var noKeys = new(Set)

// Set returns the keys of the last version of the file that had no errors. A nil File has no keys.
func (f *File) Set() *Set {
	if f == nil {
		return noKeys
	}
	return f.set.Load()
}

// Watch starts a goroutine that checks the file for changes until Close is called.
func (f *File) Watch() {
	ctx, cancel := context.WithCancel(context.Background())
	f.stop = cancel
	go func() {
		tick := time.NewTicker(pollInterval)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				f.poll(ctx)
			case <-ctx.Done():
				return
			}
		}
	}()
}

// Close ends the goroutine of Watch. It does not wait for a file system that hangs.
func (f *File) Close() { f.stop() }

// poll reads the file if it has changed. If the new version has an error, poll logs the error, and
// the last version without an error stays in use.
func (f *File) poll(ctx context.Context) {
	info, err := os.Stat(f.path)
	if err == nil && !f.unreadable && !f.recheck && f.isUnchanged(info) {
		return
	}
	oldSum := f.sum
	content, err := f.read()
	if err != nil {
		if !f.unreadable {
			f.logger.Error("the file of API keys cannot be read; its last version stays in use", "error", err)
		}
		f.unreadable = true
		return
	}
	if f.unreadable = false; f.sum == oldSum {
		return
	}
	if len(content) == 0 && f.recheck { // a file that is empty directly after a change is probably still being written
		f.sum = oldSum // so that the next poll treats the file as changed
		return
	}
	set, err := parse(content, f.path)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		f.logger.Error("the file of API keys has an error; its last version without one stays in use", "error", err)
	default:
		f.set.Store(set)
		f.logger.Info("the file of API keys has changed", "file", f.path, "keys", len(set.Keys))
	}
}

func (f *File) isUnchanged(info fs.FileInfo) bool {
	return os.SameFile(info, f.info) && info.ModTime().Equal(f.info.ModTime()) && info.Size() == f.info.Size()
}

func (f *File) load() (set *Set, content []byte, err error) {
	if content, err = f.read(); err == nil {
		set, err = parse(content, f.path)
	}
	return set, content, err
}

// read reads the file, and records its version in f.info, f.sum and f.recheck.
func (f *File) read() ([]byte, error) {
	if info, err := os.Stat(f.path); err == nil && !info.Mode().IsRegular() { // opening a pipe would wait
		return nil, fmt.Errorf("%s is not a file", f.path)
	}
	file, err := os.Open(f.path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(io.LimitReader(file, maxSize+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading %s: %w", f.path, err)
	case len(content) > maxSize:
		return nil, fmt.Errorf("%s has more than %d bytes", f.path, maxSize)
	}
	// Times of files are coarse: two changes within a short time may give the same one. So for
	// three seconds after a change, poll reads the file even if its time is the same.
	f.info, f.sum, f.recheck = info, sha256.Sum256(content), time.Since(info.ModTime()) < 3*time.Second
	return content, nil
}
