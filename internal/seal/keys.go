package seal

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

// Storage keeps the keys of a server over its restarts. Caddy's storage implements it.
type Storage interface {
	Lock(ctx context.Context, name string) error
	Unlock(ctx context.Context, name string) error
	Store(ctx context.Context, key string, value []byte) error
	Load(ctx context.Context, key string) ([]byte, error)
}

// keysFile is where a Storage has the keys, each in a line in hexadecimal digits. The first key seals.
const keysFile = "codex/seal.keys"

// loadTimeout bounds the time for the keys, for which a request waits.
const loadTimeout = 5 * time.Second

// NewSealer returns a Sealer with the keys in storage, which gets a new key if there is none. If share is not
// nil, several servers share a key: share gets this server's first key, and returns the key of all of them,
// which becomes the first one here. The keys are loaded when the first text is sealed or opened. If
// storage does not work, texts are sealed with a key that lasts until the end of the process.
func NewSealer(storage Storage, share func(ctx context.Context, own string) (string, error), logger *slog.Logger) Sealer {
	var mu sync.Mutex
	var keys [][]byte
	return func(ctx context.Context) ([][]byte, error) {
		mu.Lock()
		defer mu.Unlock()
		if keys != nil {
			return keys, nil
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), loadTimeout)
		defer cancel()
		own, err := loadKeys(ctx, storage)
		if err != nil {
			logger.Warn("the key of summaries that clients keep is not stored: after a restart, they cannot be read any more", "error", err)
			own = [][]byte{processKey()}
		}
		if share != nil {
			if own, err = shareKey(ctx, storage, share, own); err != nil {
				return nil, err // so the next request tries again
			}
		}
		keys = own
		return keys, nil
	}
}

// OfProcess is a Sealer whose key lasts until the end of the process.
func OfProcess(context.Context) ([][]byte, error) { return [][]byte{processKey()}, nil }

var processKey = sync.OnceValue(newKey)

func newKey() []byte {
	key := make([]byte, KeyBytes)
	_, _ = rand.Read(key) // never fails
	return key
}

// loadKeys reads the keys in storage. If there are none, it makes one, under a lock that all servers with
// this storage respect.
func loadKeys(ctx context.Context, storage Storage) ([][]byte, error) {
	keys, err := readKeys(ctx, storage)
	if !errors.Is(err, fs.ErrNotExist) {
		return keys, err
	}
	if err := storage.Lock(ctx, keysFile); err != nil {
		return nil, err
	}
	defer func() { _ = storage.Unlock(context.WithoutCancel(ctx), keysFile) }() // a lock of a dead server expires
	if keys, err = readKeys(ctx, storage); !errors.Is(err, fs.ErrNotExist) {
		return keys, err
	}
	keys = [][]byte{newKey()}
	return keys, storeKeys(ctx, storage, keys)
}

func readKeys(ctx context.Context, storage Storage) (keys [][]byte, err error) {
	text, err := storage.Load(ctx, keysFile)
	if err != nil {
		return nil, err
	}
	for _, line := range strings.Fields(string(text)) {
		key, err := decodeKey(line)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	if keys == nil {
		return nil, errBadKey
	}
	return keys, nil
}

func storeKeys(ctx context.Context, storage Storage, keys [][]byte) error {
	var text []byte
	for _, key := range keys {
		text = append(hex.AppendEncode(text, key), '\n')
	}
	return storage.Store(ctx, keysFile, text)
}

var errBadKey = errors.New("what is stored in " + keysFile + " is no key: 64 hexadecimal digits a line")

func decodeKey(text string) ([]byte, error) {
	key, err := hex.DecodeString(text)
	if err != nil || len(key) != KeyBytes {
		return nil, errBadKey
	}
	return key, nil
}

// shareKey puts the key of all servers before the server's own keys. It also stores the key, so that this
// server still knows it if the others forget it.
func shareKey(ctx context.Context, storage Storage, share func(context.Context, string) (string, error), own [][]byte) ([][]byte, error) {
	text, err := share(ctx, hex.EncodeToString(own[0]))
	if err != nil {
		return nil, err
	}
	shared, err := decodeKey(text)
	if err != nil || bytes.Equal(shared, own[0]) {
		return own, err
	}
	own = slices.DeleteFunc(own, func(key []byte) bool { return bytes.Equal(key, shared) })
	own = append([][]byte{shared}, own...)
	_ = storeKeys(ctx, storage, own) // the shared key is known all the same
	return own, nil
}
