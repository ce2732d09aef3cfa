// Package apikeys reads and edits a file of API keys. The file has the syntax of a
// Caddyfile, which its operators know: it can have comments, caddy fmt formats it, and
// errors have a line.
//
//	# The laptop of Alice
//	key alice-laptop {
//	    hash    sha256:<64 hexadecimal digits>
//	    user    alice
//	    expires 2027-01-31
//	    models  gpt-5.5 fast
//	}
//
// Only hashes of keys are stored. SHA-256 without salt or stretching is enough for a key
// with 128 random bits, which nobody can guess; a short password would need more.
package apikeys

import (
	"crypto/sha256"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/quota"
)

// Hash is the SHA-256 of a key.
type Hash [sha256.Size]byte

// Key is an entry of a file of keys.
type Key struct {
	quota.Key
	Hash    Hash
	Expires time.Time // zero: never

	first, last int // its lines in the file, from 1 on
}

// Expired reports whether the key is no longer valid.
func (k *Key) Expired(now time.Time) bool { return !k.Expires.IsZero() && !now.Before(k.Expires) }

// Set is the content of a file of keys. It is not changed after it was made.
type Set struct {
	Keys   []*Key // in the order of the file
	byHash map[Hash]*Key
}

// Find returns the entry of a key that a client presents, or nil. The time it takes says
// something about the hash at most, from which nobody can make a key.
func (s *Set) Find(presented string) *Key { return s.byHash[sha256.Sum256([]byte(presented))] }
