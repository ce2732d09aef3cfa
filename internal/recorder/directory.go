package recorder

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"sync/atomic"
	"time"
)

const (
	fileTime   = "20060102T150405.000000000Z" // begins the names of files, which are so in the order of time
	fileSize   = 4 << 10                      // what a file takes up at least, in bytes
	maxWaiting = 64 << 20                     // bytes of recordings that wait for the disk; further ones are not stored
)

var (
	ownFile       = regexp.MustCompile(`^\d{8}T\d{6}\.\d{9}Z-([0-9a-f]{8})-.*\.jsonl(?:\.part)?$`)
	unsafeInNames = regexp.MustCompile(`[^A-Za-z0-9-]`)
	errDiskHangs  = errors.New("the disk takes too long")
)

// Directory keeps recordings as files that only the system's user can read, and leaves other files alone. Its
// methods are safe for concurrent use. Several directories may have the same path.
type Directory struct {
	Path   string
	Size   int64         // of all files, in bytes; if there is no room, the user with the most loses the oldest
	Age    time.Duration // after which a file is removed, at the latest an hour later if there are recordings
	Logger *slog.Logger

	waiting atomic.Int64 // bytes
	err     atomic.Pointer[error]

	mu      sync.Mutex
	written int64     // bytes since the last call of prune
	pruned  time.Time // when that was
}

// Err returns why recordings cannot be kept at the moment, or nil.
func (d *Directory) Err() error {
	if err := d.err.Load(); err != nil {
		return *err
	}
	return nil
}

// Store keeps the recording of a user's request with an id, which may have any characters. Without a recording, it
// only removes files. It logs when keeping begins to fail.
func (d *Directory) Store(user, id string, recording []byte) {
	err, size := errDiskHangs, max(int64(len(recording)), fileSize)
	if d.waiting.Add(size) <= maxWaiting {
		err = d.store(user, id, recording)
	}
	d.waiting.Add(-size)
	if err != nil && d.Err() == nil {
		d.Logger.Error("recordings cannot be stored: make room, or let this user write the directory", "directory", d.Path, "error", err)
	}
	d.err.Store(&err)
}

func (d *Directory) store(user, id string, recording []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := os.MkdirAll(d.Path, 0o700) // somebody may have removed it
	if err == nil && recording != nil {
		name := fmt.Sprintf("%s-%08x-%s.jsonl", time.Now().UTC().Format(fileTime), crc32.ChecksumIEEE([]byte(user)), unsafeInNames.ReplaceAllString(id, "_"))
		path := filepath.Join(d.Path, name)
		if err = os.WriteFile(path+".part", recording, 0o600); err == nil {
			err = os.Rename(path+".part", path)
		}
		if err != nil {
			_ = os.Remove(path + ".part")
		}
	}
	if d.written += max(int64(len(recording)), fileSize); err == nil && (d.written > d.Size/16 || time.Since(d.pruned) > time.Hour) {
		err = d.prune()
	}
	return err
}

// file is a recording in a directory.
type file struct {
	name, user string
	size       int64
}

// prune removes what is too old, and what takes up more than 15/16 of Size, but not the newest file: the rest has
// room until the next call.
func (d *Directory) prune() (err error) {
	d.written, d.pruned = 0, time.Now()
	entries, err := os.ReadDir(d.Path)
	var files []file
	total, users := int64(0), make(map[string]int64)
	for _, entry := range entries { // the oldest first
		info, infoErr := entry.Info()
		if match := ownFile.FindStringSubmatch(entry.Name()); match != nil && infoErr == nil && info.Mode().IsRegular() {
			f := file{entry.Name(), match[1], max(info.Size(), fileSize)}
			files, total, users[f.user] = append(files, f), total+f.size, users[f.user]+f.size
		}
	}
	remove := func(f file) {
		if removed := os.Remove(filepath.Join(d.Path, f.name)); removed != nil && !errors.Is(removed, fs.ErrNotExist) {
			err = errors.Join(err, removed)
		}
		total, users[f.user] = total-f.size, users[f.user]-f.size
	}
	oldest := d.pruned.Add(-d.Age).UTC().Format(fileTime)
	for len(files) > 0 && files[0].name < oldest {
		remove(files[0])
		files = files[1:]
	}
	for len(files) > 1 && total > d.Size-d.Size/16 { // each round removes something of the users with the most
		var kept []file
		share := total / int64(len(users))
		for i, f := range files {
			if total > d.Size-d.Size/16 && users[f.user] >= share && i < len(files)-1 {
				remove(f)
			} else {
				kept = append(kept, f)
			}
		}
		if len(kept) == len(files) { // the newest alone is the share of its user
			remove(files[0])
			kept = files[1:]
		}
		files = kept
	}
	return err
}
