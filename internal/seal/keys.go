package seal

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"log/slog"
	"sync"
	"syscall"
	"time"
)

// Storage keeps the key of a server over its restarts. Caddy's storage implements it.
type Storage interface {
	Lock(ctx context.Context, name string) error
	Unlock(ctx context.Context, name string) error
	Store(ctx context.Context, key string, value []byte) error
	Load(ctx context.Context, key string) ([]byte, error)
}

const (
	keyBytes = 32
	// keyFile is where a Storage has the key.
	keyFile = "codex/seal.key"
	// loadTimeout bounds the time for the key, for which a request waits.
	loadTimeout = 5 * time.Second
)

// NewSealer returns a Sealer with the key in storage, which gets a new one if there is none. If share is not
// nil, several servers have a common key: share gets this server's key, and returns the key of all, which this
// server then stores, too. The key is loaded when the first text is sealed or opened. If storage cannot be
// written, texts are sealed with a key that lasts until the end of the process.
func NewSealer(storage Storage, share func(ctx context.Context, own string) (string, error), logger *slog.Logger) Sealer {
	var mu sync.Mutex
	var key string
	return func(ctx context.Context) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		if key != "" {
			return key, nil
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), loadTimeout)
		defer cancel()
		own, err := loadKey(ctx, storage)
		switch {
		case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
			logger.Warn("the key of summaries that clients keep is not stored: after a restart, they cannot be read any more", "error", err)
			own = processKey()
		case err != nil:
			return "", err // perhaps only now: the next request tries again
		}
		common := own
		if share != nil {
			if common, err = share(ctx, own); err != nil {
				return "", err // the next request tries again
			}
			if common != own {
				_ = storage.Store(ctx, keyFile, []byte(common)) // the others know it, too
			}
		}
		key = common
		return key, nil
	}
}

// OfProcess is a Sealer whose key lasts until the end of the process.
func OfProcess(context.Context) (string, error) { return processKey(), nil }

var processKey = sync.OnceValue(newKey)

func newKey() string {
	key := make([]byte, keyBytes)
	_, _ = rand.Read(key) // never fails
	return hex.EncodeToString(key)
}

// loadKey reads the key in storage. If there is none, it makes one, under a lock that all servers with this
// storage respect.
func loadKey(ctx context.Context, storage Storage) (string, error) {
	key, err := storage.Load(ctx, keyFile)
	if !errors.Is(err, fs.ErrNotExist) {
		return string(key), err
	}
	if err := storage.Lock(ctx, keyFile); err != nil {
		return "", err
	}
	defer func() { _ = storage.Unlock(context.WithoutCancel(ctx), keyFile) }() // a lock of a dead server expires
	if key, err = storage.Load(ctx, keyFile); errors.Is(err, fs.ErrNotExist) {
		key = []byte(newKey())
		err = storage.Store(ctx, keyFile, key)
	}
	return string(key), err
}
