// Package seal encrypts what clients keep for this server. Nothing of it has to be stored here: every server
// with the same key can read it, also after years.
package seal

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"strings"
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
