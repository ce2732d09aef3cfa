package conversation

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/caddy-codex/caddy-codex/internal/storedbook"
)

const (
	// keysInterval is how often changed keys are stored.
	keysInterval = time.Minute
	// maxStoredKeys is the most keys that are stored of one memory, the newest ones.
	maxStoredKeys = 4096
	// storedKeySize is what a stored key takes: a hash, and the UUID that the key is.
	storedKeySize = sha256.Size + len(uuid.UUID{})
)

// Keys are the cache keys of a [Memory], as they are stored.
type Keys struct{ memory *Memory }

// keysDocument are keys as they are stored: no text, only hashes and keys.
type keysDocument struct {
	storedbook.Header
	Keys []byte `json:"keys"` // each a hash with its key, the newest first
}

// NewKeysKeeper returns a keeper of the cache keys of a memory. The name of a document is that
// of the node and the login.
func NewKeysKeeper(m *Memory) *storedbook.Keeper {
	return storedbook.NewKeeper(&Keys{m}, "the cache keys of conversations", "codex/conversations", keysInterval)
}

// Document implements [storedbook.Book], with the newest keys.
func (k *Keys) Document(since uint64) (storedbook.Document, uint64) {
	m := k.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.keyChanges == since {
		return nil, since
	}
	d := new(keysDocument)
	for e := m.order.Back(); e != nil && len(d.Keys) < maxStoredKeys*storedKeySize; e = e.Prev() {
		one := e.Value.(*memory)
		// Reasoning has no key.
		if id, err := uuid.Parse(one.key); err == nil && id.String() == one.key {
			d.Keys = append(append(d.Keys, one.hash[:]...), id[:]...)
		}
	}
	return d, m.keyChanges
}

// Restore adds the keys of a document, as older than those that are there. After a Clear of
// the memory it adds none.
func (k *Keys) Restore(content []byte) error {
	var d keysDocument
	if err := json.Unmarshal(content, &d); err != nil {
		return err
	}
	if len(d.Keys)%storedKeySize != 0 || len(d.Keys) > maxStoredKeys*storedKeySize {
		return fmt.Errorf("its keys have %d bytes, not at most %d times %d", len(d.Keys), maxStoredKeys, storedKeySize)
	}
	m := k.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cleared {
		return nil
	}
	for one := range slices.Chunk(d.Keys, storedKeySize) {
		hash, key := Hash(one[:sha256.Size]), uuid.UUID(one[sha256.Size:]).String()
		older := &memory{hash: hash, key: key, size: memorySize + len(key)}
		if m.byHash[hash] == nil && m.bytes+older.size <= m.limit {
			m.byHash[hash] = m.order.PushFront(older)
			m.bytes += older.size
		}
	}
	return nil
}
