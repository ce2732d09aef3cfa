package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// Disk is an engine that keeps entries in a file. Only one process can use the file at a time. The
// entries outlive the process, even if it crashes.
type Disk struct {
	*Local
	file *boltFile
}

// boltFile is a shelf in a file. The lock of the [Local] is held during each change.
type boltFile struct {
	path string
	db   *bbolt.DB // nil: the file is not open
	file *os.File  // the open file of db
	load func(transaction, map[string]*metadata) error

	beginMu sync.Mutex            // held while a transaction begins
	damage  atomic.Pointer[error] // why the file is not used any more; nil: the file is used
	failed  atomic.Bool           // the last change failed
}

// lockTimeout is how long a process waits for the file, which the previous process may still use.
const lockTimeout = 10 * time.Second

// NewDisk returns an engine in a folder. It does not work before Start. [Disk.Limit] sets its limits.
func NewDisk(dir string) *Disk {
	f := &boltFile{path: filepath.Join(dir, "responses.db")}
	d := &Disk{Local: newLocal(f, 0, MaxEntry, 0), file: f}
	f.load = d.Local.load
	return d
}

// Start opens the file, or makes it if there is none. If the file is open already, Start does
// nothing. Start fails if the file cannot be used.
func (d *Disk) Start() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.file
	if f.db != nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		return err
	}
	err := f.open()
	if err == nil {
		err = f.write(f.reload)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", f.path, errors.Join(err, f.close()))
		f.db = nil
		f.damage.Store(nil) // so that Start can be called again
	}
	return err
}

// Close closes the file.
func (d *Disk) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.file.close()
}

// Limit changes the limits. Entries beyond the new limits are dropped when the next entry is put.
func (d *Disk) Limit(maxBytes int64, maxAge time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.maxBytes, d.maxAge = maxBytes, maxAge
}

// open opens the file, or makes it if there is none.
func (f *boltFile) open() error {
	options := &bbolt.Options{Timeout: lockTimeout, FreelistType: bbolt.FreelistMapType}
	options.OpenFile = func(name string, flag int, mode os.FileMode) (file *os.File, err error) {
		file, err = os.OpenFile(name, flag, mode)
		f.file = file
		return file, err
	}
	err := recoverDamage(func() (err error) {
		f.db, err = bbolt.Open(f.path, 0o600, options)
		return err
	})
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return errors.New("another process uses it")
	case errors.Is(err, errDamaged):
		f.damage.Store(&err)
	}
	return err
}

func (f *boltFile) close() error {
	switch {
	case f.damage.Load() != nil:
		// DB.Close would wait for locks that bbolt still holds, see beginTx and write.
		return errors.Join(unlock(f.file), f.file.Close())
	case f.db != nil:
		return f.db.Close()
	}
	return nil
}

var errOldFile = errors.New("an earlier release has written it, and this one cannot read it; to begin with an empty one, stop Caddy and move the file away")

// reload makes the buckets that the file lacks, and calls load with the metadata of all entries.
func (f *boltFile) reload(tx *bbolt.Tx) error {
	if tx.Bucket([]byte("entries")) != nil {
		return errOldFile
	}
	for _, part := range []Part{about, Value, Items, Events} {
		if _, err := tx.CreateBucketIfNotExists([]byte(part)); err != nil {
			return err
		}
	}
	found := make(map[string]*metadata)
	err := tx.Bucket([]byte(about)).ForEach(func(key, record []byte) error {
		if m := decodeMetadata(unseal(record)); m != nil && m.Bytes > 0 && len(key) > numberSize {
			found[string(key[:len(key)-numberSize])] = m
		}
		return nil
	})
	if err != nil {
		return err
	}
	return f.load(boltTransaction{tx}, found)
}

// isOfEntry reports whether an error is about one entry: the shelf works.
func isOfEntry(err error) bool {
	return errors.Is(err, ErrNotFound) || errors.Is(err, ErrTooLarge) || errors.Is(err, ErrEnded)
}

var errNotStarted = Unavailable(errors.New("it was not started"))

// update implements shelf. If the file is not damaged but cannot be changed, update reads the
// metadata again, so that they agree with the file.
func (f *boltFile) update(change func(transaction) error) error {
	if f.db == nil {
		return errNotStarted
	}
	begin, err := time.Now(), f.write(func(tx *bbolt.Tx) error { return change(boltTransaction{tx}) })
	switch {
	case err == nil, isOfEntry(err):
		f.failed.Store(f.failed.Load() && err != nil) // only a success shows that the file can be changed
		observe("write", begin, nil)
		return err
	case !errors.Is(err, errDamaged):
		err = errors.Join(err, f.write(f.reload))
	}
	f.failed.Store(true)
	observe("write", begin, err)
	return Unavailable(err)
}

// view implements shelf.
func (f *boltFile) view(get func(transaction) error) error {
	if f.db == nil {
		return errNotStarted
	}
	err := f.read(func(tx *bbolt.Tx) error { return get(boltTransaction{tx}) })
	if isOfEntry(err) {
		return err
	}
	return Unavailable(err)
}

// Fails implements [Engine]. A disk that was full fails until a change succeeds.
func (d *Disk) Fails() bool { return d.file.failed.Load() || d.file.damage.Load() != nil }

// boltTransaction has a bucket for each part. The keys are ids with numbers.
type boltTransaction struct{ *bbolt.Tx }

// numberSize is the size of the number in a key, in bytes.
const numberSize = 8

func keyOf(id string, n int64) []byte { return binary.BigEndian.AppendUint64([]byte(id), uint64(n)) }

func (t boltTransaction) get(id string, part Part, n int64) []byte {
	return unseal(t.Bucket([]byte(part)).Get(keyOf(id, n)))
}

func (boltTransaction) keep(record []byte) []byte { return bytes.Clone(record) }

func (t boltTransaction) put(id string, part Part, n int64, record []byte) error {
	return t.Bucket([]byte(part)).Put(keyOf(id, n), seal(record))
}

// checksums is the table for the checksums of records: bbolt does not notice that a disk has changed a
// value.
var checksums = crc32.MakeTable(crc32.Castagnoli)

func seal(record []byte) []byte {
	sealed := append(make([]byte, 0, len(record)+crc32.Size), record...)
	return binary.BigEndian.AppendUint32(sealed, crc32.Checksum(record, checksums))
}

// unseal returns the record that was passed to seal, or nil if the sealed record has changed since.
func unseal(sealed []byte) []byte {
	end := len(sealed) - crc32.Size
	if end < 0 || crc32.Checksum(sealed[:end], checksums) != binary.BigEndian.Uint32(sealed[end:]) {
		return nil
	}
	return sealed[:end:end]
}

func (t boltTransaction) drop(id string, parts ...Part) error {
	for _, part := range parts {
		b := t.Bucket([]byte(part))
		var keys [][]byte // collected first, since a cursor that deletes skips keys
		c := b.Cursor()
		for key, _ := c.Seek([]byte(id)); bytes.HasPrefix(key, []byte(id)); key, _ = c.Next() {
			keys = append(keys, bytes.Clone(key))
		}
		for _, key := range keys {
			if err := b.Delete(key); err != nil {
				return err
			}
		}
	}
	return nil
}
