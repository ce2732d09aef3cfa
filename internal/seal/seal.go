// Package seal encrypts what clients keep for this server. Nothing of it has to be stored here: every server
// with the same key can read it, also after years.
package seal

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"errors"
	"strings"
)

// prefix begins every sealed text. The 1 is the version of the form: then comes a nonce of 12 bytes and what
// AES-256-GCM makes of the content, in base64 for URLs.
const prefix = "codex-sealed-1."

// KeyBytes is the length of a key.
const KeyBytes = 32

// ErrUnreadable means that a sealed text was changed, belongs to another user, or was sealed with a key that
// this server does not have.
var ErrUnreadable = errors.New("it was changed, belongs to another user, or was made by a server with another key")

// Sealer seals and opens texts. Its function returns the keys: the first one seals, and all of them open.
// It is safe for concurrent use if the function is.
type Sealer func(context.Context) (keys [][]byte, err error)

// IsSealed reports whether a text has the form of a sealed one.
func IsSealed(text string) bool { return strings.HasPrefix(text, prefix) }

// Seal encrypts content for a user, who alone can have it opened. It fails only if there is no key.
func (s Sealer) Seal(ctx context.Context, user string, content []byte) (string, error) {
	keys, err := s(ctx)
	if err != nil {
		return "", err
	}
	sealed := newCipher(keys[0]).Seal(nil, nil, content, []byte(user))
	return prefix + base64.RawURLEncoding.EncodeToString(sealed), nil
}

// Open returns the content of a text that [Sealer.Seal] has made for the same user. The error is
// ErrUnreadable, or says why there is no key.
func (s Sealer) Open(ctx context.Context, user, text string) ([]byte, error) {
	keys, err := s(ctx)
	if err != nil {
		return nil, err
	}
	encoded, ok := strings.CutPrefix(text, prefix)
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	if !ok || err != nil {
		return nil, ErrUnreadable
	}
	for _, key := range keys {
		if content, err := newCipher(key).Open(nil, nil, sealed, []byte(user)); err == nil {
			return content, nil
		}
	}
	return nil, ErrUnreadable
}

// newCipher returns the cipher of a key, whose nonces are random. It fails for no key of KeyBytes.
func newCipher(key []byte) cipher.AEAD {
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err)
	}
	return aead
}
