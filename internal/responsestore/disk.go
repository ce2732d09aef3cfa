package responsestore

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/caddy-codex/caddy-codex/internal/responseid"
	"github.com/caddy-codex/caddy-codex/internal/stores"
)

// Disk keeps entries in a file. Only one process can use the file at a time. The entries outlive
// the process, even if it crashes. When there is no room, Disk drops entries, see [entryIndex].
type Disk struct {
	dir string
	now func() time.Time

	mu     sync.Mutex // guards the fields below; held during each change of the file
	db     *bbolt.DB  // nil: the store was not started
	file   *os.File   // of db
	maxAge time.Duration
	entryIndex
	ownResponses map[string]bool // the ids of responses that this process makes

	beginMu sync.Mutex            // held while a transaction begins
	damage  atomic.Pointer[error] // why the file is not used any more; nil: it is used
	fails   atomic.Bool           // the last change failed
}

// The buckets of the file.
var (
	entryBucket    = []byte("entries") // by id
	metadataBucket = []byte("about")   // by id, as JSON of metadata
	itemBucket     = []byte("items")   // of conversations, by id and number
	eventBucket    = []byte("events")  // of background responses, by id and number
)

// metadata has the facts about an entry that can be read without the entry itself.
type metadata struct {
	User   string `json:"user"`
	Size   int64  `json:"size"`
	Events int64  `json:"events,omitempty"` // how many events have come, which is also the number of the next event
	Over   bool   `json:"over,omitempty"`   // no more events will come
	Lost   bool   `json:"lost,omitempty"`   // the response has failed, because the process that made it ended too early
}

// lockTimeout is how long a process waits for the file, which the previous process may still use.
const lockTimeout = 10 * time.Second

// NewDisk returns a store in a folder. It does not work before Start. [Disk.Limit] sets its limits.
func NewDisk(dir string) *Disk {
	return &Disk{dir: dir, now: time.Now, entryIndex: newEntryIndex(0), ownResponses: make(map[string]bool)}
}

// Start opens the file, or makes it if there is none. If the file is open already, Start does
// nothing. Start fails if the file cannot be used.
func (d *Disk) Start() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.db != nil {
		return nil
	}
	if err := os.MkdirAll(d.dir, 0o700); err != nil {
		return err
	}
	path := filepath.Join(d.dir, "responses.db")
	err := d.open(path)
	if err == nil {
		err = d.load()
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", path, errors.Join(err, d.close()))
		d.db = nil
		d.damage.Store(nil)
	}
	return err
}

// open opens the file, or makes it if there is none.
func (d *Disk) open(path string) error {
	options := &bbolt.Options{Timeout: lockTimeout, FreelistType: bbolt.FreelistMapType}
	options.OpenFile = func(name string, flag int, mode os.FileMode) (file *os.File, err error) {
		file, err = os.OpenFile(name, flag, mode)
		d.file = file
		return file, err
	}
	err := recoverDamage(func() (err error) {
		d.db, err = bbolt.Open(path, 0o600, options)
		return err
	})
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return errors.New("another process uses it")
	case errors.Is(err, errDamaged):
		d.damage.Store(&err)
	}
	return err
}

// Pause does nothing: requests may still use the store.
func (d *Disk) Pause() {}

// Close closes the file.
func (d *Disk) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.close()
}

// close closes the file, if it is open. The caller holds the lock of d.
func (d *Disk) close() error {
	switch {
	case d.damage.Load() != nil:
		// DB.Close would wait for locks that bbolt still holds, see beginTx and write.
		return errors.Join(unlock(d.file), d.file.Close())
	case d.db != nil:
		return d.db.Close()
	}
	return nil
}

// Limit changes the limits. Entries beyond the new limits are dropped when the next entry is put.
func (d *Disk) Limit(maxBytes int64, maxAge time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.maxBytes, d.maxAge = maxBytes, maxAge
}

// load makes the buckets that the file lacks, and fills d.entryIndex with the file's entries, the
// oldest first. It drops entries beyond the limits.
func (d *Disk) load() (err error) {
	before := d.entryIndex
	d.entryIndex = newEntryIndex(before.maxBytes)
	defer func() {
		if err != nil {
			d.entryIndex = before
		}
	}()
	return d.write(func(tx *bbolt.Tx) error {
		for _, name := range [][]byte{entryBucket, metadataBucket, itemBucket, eventBucket} {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		var found []*storedEntry
		users := make(map[string]string)
		err := tx.Bucket(metadataBucket).ForEach(func(id, value []byte) error {
			var meta metadata
			if at, ok := responseid.Time(string(id)); ok && json.Unmarshal(value, &meta) == nil && meta.Size > 0 {
				found = append(found, &storedEntry{id: string(id), expires: at.Add(d.maxAge), size: meta.Size})
				users[string(id)] = meta.User
			}
			return nil
		})
		if err != nil {
			return err
		}
		slices.SortFunc(found, func(a, b *storedEntry) int { return a.expires.Compare(b.expires) })
		for _, k := range found {
			err := d.countEntry(tx, users[k.id], k)
			if errors.Is(err, stores.ErrTooLarge) { // the limits were larger when the entry was stored
				err = dropEntry(tx, k.id)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// countEntry adds an entry to d.entryIndex. If there is no room, it drops other entries, also from
// the file.
func (d *Disk) countEntry(tx *bbolt.Tx, user string, k *storedEntry) error {
	dropped, err := d.entryIndex.put(user, k, d.now())
	for _, k := range dropped {
		err = errors.Join(err, dropEntry(tx, k.id))
	}
	return err
}

// dropEntry deletes an entry with all that belongs to it.
func dropEntry(tx *bbolt.Tx, id string) error {
	for _, name := range [][]byte{entryBucket, metadataBucket} {
		if err := tx.Bucket(name).Delete([]byte(id)); err != nil {
			return err
		}
	}
	return errors.Join(dropPrefix(tx.Bucket(itemBucket), id), dropPrefix(tx.Bucket(eventBucket), id))
}

// dropPrefix deletes all keys that begin with an id.
func dropPrefix(b *bbolt.Bucket, id string) error {
	c := b.Cursor()
	for key, _ := c.Seek([]byte(id)); bytes.HasPrefix(key, []byte(id)); key, _ = c.Next() {
		if err := c.Delete(); err != nil {
			return err
		}
	}
	return nil
}

// errNotStarted is the error of a store before Start.
var errNotStarted = stores.Unavailable(errors.New("it was not started"))

// update runs change, which changes the file and perhaps d.entryIndex. If the file is not damaged
// but cannot be changed, update fills d.entryIndex again from the file, so that they agree. The
// caller holds d.mu.
func (d *Disk) update(change func(*bbolt.Tx) error) error {
	if d.db == nil {
		return errNotStarted
	}
	begin, err := time.Now(), d.write(change)
	switch {
	case err == nil, errors.Is(err, stores.ErrNotFound), errors.Is(err, stores.ErrTooLarge), errors.Is(err, stores.ErrEnded):
		d.fails.Store(d.fails.Load() && err != nil)
		observe("write", begin, nil)
		return err
	case !errors.Is(err, errDamaged):
		err = errors.Join(err, d.load())
	}
	d.fails.Store(true)
	observe("write", begin, err)
	return stores.Unavailable(err)
}

// Fails implements [stores.Failing]. A disk that was full fails until a change succeeds.
func (d *Disk) Fails() bool { return d.fails.Load() || d.damage.Load() != nil }

// numberedKey is the key of the item or event with the number n.
func numberedKey(id string, n uint64) []byte { return binary.BigEndian.AppendUint64([]byte(id), n) }

// Put implements [stores.Store].
func (d *Disk) Put(ctx context.Context, id string, e *stores.Entry) error {
	return d.put(ctx, id, e, false)
}

// put stores an entry. If isOwn is true, the entry is a response that this process makes.
func (d *Disk) put(ctx context.Context, id string, e *stores.Entry, isOwn bool) error {
	at, ok := responseid.Time(id)
	if !ok {
		return fmt.Errorf("the id %.64q: %w", id, stores.ErrNotFound)
	}
	release, err := stores.ReserveEntry(ctx, e)
	if err != nil {
		return err
	}
	defer release()
	stored := *e
	if responseid.ValidConversation(id) {
		stored.Input = nil
	}
	value, err := stores.Encode(&stored)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.update(func(tx *bbolt.Tx) error {
		meta := readMetadata(tx, id)
		if meta != nil && (meta.User != e.User || meta.Over && !d.ownResponses[id]) {
			return stores.ErrEnded
		}
		if meta == nil {
			meta = &metadata{User: e.User}
		}
		meta.Size = e.Size() + int64(len(id))
		if err := d.countEntry(tx, e.User, &storedEntry{id: id, expires: at.Add(d.maxAge), size: meta.Size}); err != nil {
			return err
		}
		if isOwn {
			d.ownResponses[strings.Clone(id)] = true
		}
		err := errors.Join(tx.Bucket(entryBucket).Put([]byte(id), value), writeMetadata(tx, id, meta))
		if responseid.ValidConversation(id) {
			err = errors.Join(err, dropPrefix(tx.Bucket(itemBucket), id), putItems(tx, id, e.Input))
		}
		return err
	})
}

// readMetadata returns the metadata of an entry, or nil if there is none.
func readMetadata(tx *bbolt.Tx, id string) *metadata {
	value := tx.Bucket(metadataBucket).Get([]byte(id))
	if value == nil {
		return nil
	}
	meta := new(metadata)
	if json.Unmarshal(value, meta) != nil {
		return nil
	}
	return meta
}

// writeMetadata stores the metadata of an entry.
func writeMetadata(tx *bbolt.Tx, id string, meta *metadata) error {
	value, err := json.Marshal(meta)
	if err != nil {
		return err
	}
	return tx.Bucket(metadataBucket).Put([]byte(id), value)
}

// putItems adds items at the end of a conversation.
func putItems(tx *bbolt.Tx, id string, items []json.RawMessage) error {
	b := tx.Bucket(itemBucket)
	for _, item := range items {
		n, err := b.NextSequence()
		if err == nil {
			err = b.Put(numberedKey(id, n), item)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// entrySize returns the size of a user's entry.
func (d *Disk) entrySize(user, id string) (size int64, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	k, err := d.find(user, id)
	if err != nil {
		return 0, err
	}
	return k.size, nil
}

// find returns a user's entry. The caller holds d.mu.
func (d *Disk) find(user, id string) (*storedEntry, error) {
	if d.db == nil {
		return nil, errNotStarted
	}
	k := d.entryIndex.find(user, id, d.now())
	if k == nil {
		return nil, stores.ErrNotFound
	}
	return k, nil
}

// Get implements [stores.Store].
func (d *Disk) Get(ctx context.Context, user, id string) (*stores.Entry, error) {
	e, err := d.readEntry(ctx, user, id)
	if err != nil || !e.Running {
		return e, err
	}
	d.mu.Lock()
	owned := d.ownResponses[id]
	d.mu.Unlock()
	if owned {
		return e, nil
	}
	e.Release()
	if err := d.markLost(user, id); err != nil {
		return nil, err
	}
	return d.readEntry(ctx, user, id)
}

// readEntry reads a user's entry from the file.
func (d *Disk) readEntry(ctx context.Context, user, id string) (*stores.Entry, error) {
	size, err := d.entrySize(user, id)
	if err != nil {
		return nil, err
	}
	release, err := stores.Reserve(ctx, user, size)
	if err != nil {
		return nil, err
	}
	var e *stores.Entry
	err = d.read(func(tx *bbolt.Tx) error {
		e = stores.Decode(bytes.Clone(tx.Bucket(entryBucket).Get([]byte(id))))
		if e == nil || e.User != user {
			return stores.ErrNotFound
		}
		if !responseid.ValidConversation(id) {
			return nil
		}
		c := tx.Bucket(itemBucket).Cursor()
		for key, item := c.Seek([]byte(id)); bytes.HasPrefix(key, []byte(id)); key, item = c.Next() {
			e.Input = append(e.Input, bytes.Clone(item))
		}
		return nil
	})
	switch {
	case errors.Is(err, stores.ErrNotFound):
		release()
		return nil, err
	case err != nil:
		release()
		return nil, stores.Unavailable(err)
	}
	e.OnRelease(release)
	return e, nil
}

// Delete implements [stores.Store].
func (d *Disk) Delete(_ context.Context, user, id string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	k, err := d.find(user, id)
	if err != nil {
		return err
	}
	d.remove(k)
	delete(d.ownResponses, id)
	return d.update(func(tx *bbolt.Tx) error { return dropEntry(tx, id) })
}

// changeConversation changes a conversation with edit. edit returns how many bytes the conversation
// grows by; the number is negative if the conversation shrinks.
func (d *Disk) changeConversation(user, id string, edit func(*bbolt.Tx) (growth int64, err error)) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	k, err := d.find(user, id)
	if err != nil {
		return err
	}
	if !responseid.ValidConversation(id) {
		return stores.ErrNotFound
	}
	return d.update(func(tx *bbolt.Tx) error {
		growth, err := edit(tx)
		if err != nil {
			return err
		}
		if k.size+growth > stores.MaxEntry {
			return stores.ErrTooLarge
		}
		meta := readMetadata(tx, id)
		if meta == nil {
			return stores.ErrNotFound
		}
		meta.Size = k.size + growth
		if err := d.countEntry(tx, user, &storedEntry{id: id, expires: k.expires, size: meta.Size}); err != nil {
			return err
		}
		return writeMetadata(tx, id, meta)
	})
}

// Append implements [stores.Store].
func (d *Disk) Append(_ context.Context, user, id string, items []json.RawMessage) error {
	return d.changeConversation(user, id, func(tx *bbolt.Tx) (growth int64, err error) {
		for _, item := range items {
			growth += int64(stores.ItemOverhead + len(item))
		}
		return growth, putItems(tx, id, items)
	})
}

// RemoveItem implements [stores.Store].
func (d *Disk) RemoveItem(_ context.Context, user, id string, item json.RawMessage) error {
	return d.changeConversation(user, id, func(tx *bbolt.Tx) (growth int64, err error) {
		c := tx.Bucket(itemBucket).Cursor()
		for key, other := c.Seek([]byte(id)); bytes.HasPrefix(key, []byte(id)); key, other = c.Next() {
			if bytes.Equal(other, item) {
				return -int64(stores.ItemOverhead + len(item)), c.Delete()
			}
		}
		return 0, stores.ErrNotFound
	})
}

// SetObject implements [stores.Store].
func (d *Disk) SetObject(_ context.Context, user, id string, object json.RawMessage) error {
	return d.changeConversation(user, id, func(tx *bbolt.Tx) (growth int64, err error) {
		e := stores.Decode(bytes.Clone(tx.Bucket(entryBucket).Get([]byte(id))))
		if e == nil {
			return 0, stores.ErrNotFound
		}
		growth = int64(len(object) - len(e.Response))
		e.Response = object
		value, err := stores.Encode(e)
		if err != nil {
			return 0, err
		}
		return growth, tx.Bucket(entryBucket).Put([]byte(id), value)
	})
}
