// Package seal encrypts what clients keep for this server. Nothing of it has to be stored here: every server
// with the same key can read it, also after years.
package seal

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io/fs"
	"log/slog"
	"strings"
	"sync"
	"syscall"
	"time"
)

// prefix begins every sealed text. The 1 is the version of the form: then comes, in base64 for URLs, what
// AES-256-GCM makes of the content, with its nonce.
const prefix = "codex-sealed-1."

// ErrUnreadable means that a sealed text was changed, belongs to another user, or was sealed with another key.
var ErrUnreadable = errors.New("it was changed, belongs to another user, or was made by a server with another key")

// Sealer seals and opens texts. Its function returns the key, of 64 hexadecimal digits.
type Sealer func(context.Context) (key string, err error)

// IsSealed reports whether a text has the form of a sealed one.
func IsSealed(text string) bool { return strings.HasPrefix(text, prefix) }

// Seal encrypts content for a user, for whom alone it will be opened. It fails only if there is no key.
func (s Sealer) Seal(ctx context.Context, user string, content []byte) (string, error) {
	aead, err := s.cipher(ctx)
	if err != nil {
		return "", err
	}
	return prefix + base64.RawURLEncoding.EncodeToString(aead.Seal(nil, nil, content, []byte(user))), nil
}

// Open returns the content of a text that [Sealer.Seal] has made for the same user. The error is
// ErrUnreadable, or says why there is no key.
func (s Sealer) Open(ctx context.Context, user, text string) ([]byte, error) {
	aead, err := s.cipher(ctx)
	if err != nil {
		return nil, err
	}
	encoded, ok := strings.CutPrefix(text, prefix)
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	if !ok || err != nil {
		return nil, ErrUnreadable
	}
	content, err := aead.Open(nil, nil, sealed, []byte(user))
	if err != nil {
		return nil, ErrUnreadable
	}
	return content, nil
}

func (s Sealer) cipher(ctx context.Context) (cipher.AEAD, error) {
	text, err := s(ctx)
	if err != nil {
		return nil, err
	}
	key, err := hex.DecodeString(text)
	if err != nil || len(key) != keyBytes {
		return nil, errors.New("the key of summaries is not 64 hexadecimal digits")
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

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
