package caddymodule

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
)

// APIKey lets a client in.
type APIKey struct {
	// The key. Placeholders are resolved when the configuration is loaded.
	Key string `json:"key"`

	// The name of the user who presents the key; it becomes
	// {http.auth.user.id}, for logs, usage and handlers further on. Default: key-1
	// for the first key, key-2 for the second, and so on. Somebody else with such a
	// name is another user: `user:key-1`.
	User string `json:"user,omitempty"`
}

// keyring knows the keys by their hashes, so that comparing takes the same
// time whatever is presented.
type keyring []hashedKey

type hashedKey struct {
	sum  [sha256.Size]byte
	user any // a string, or an unnamedKey
}

// unnamedKey is the user of a key for whom no name is configured. As the value
// of {http.auth.user.id} its type tells it from a user who was given this name.
type unnamedKey string

// newKeyring resolves the keys. An empty one is refused, and so is one with a
// part that resolves to nothing, mostly because a variable is not set: what is
// left would be a key that is easy to guess. The errors say nothing of a key.
func newKeyring(keys []APIKey, repl *caddy.Replacer) (keyring, error) {
	var ring keyring
	for i, k := range keys {
		key, err := repl.ReplaceOrErr(k.Key, true, true)
		if err != nil {
			return nil, fmt.Errorf("api_key %d has a placeholder that is empty or unknown: is its variable or file set?", i+1)
		}
		if key = strings.TrimSpace(key); key == "" {
			return nil, fmt.Errorf("api_key %d is empty", i+1)
		}
		name, err := repl.ReplaceOrErr(k.User, true, true)
		if err != nil {
			return nil, fmt.Errorf("the user of api_key %d has a placeholder that is empty or unknown", i+1)
		}
		var user any = name
		if name == "" {
			// So that the holders of two keys do not share an account.
			user = unnamedKey(fmt.Sprintf("key-%d", i+1))
		}
		sum := sha256.Sum256([]byte(key))
		if first := slices.IndexFunc(ring, func(other hashedKey) bool { return other.sum == sum }); first >= 0 {
			return nil, fmt.Errorf("api_key %d is the same as api_key %d: whose is it?", i+1, first+1)
		}
		ring = append(ring, hashedKey{sum, user})
	}
	return ring, nil
}

// allows reports whether a request may pass: it presents one of the keys, or
// none is configured. It compares with every key in constant time.
func (ring keyring) allows(r *http.Request) bool {
	if len(ring) == 0 {
		return true
	}
	scheme, key, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	presented := sha256.Sum256([]byte(strings.TrimSpace(key)))
	found := -1
	for i := range ring {
		if subtle.ConstantTimeCompare(presented[:], ring[i].sum[:]) == 1 {
			found = i
		}
	}
	if found < 0 || !strings.EqualFold(scheme, "Bearer") {
		return false
	}
	setUser(r, ring[found].user)
	return true
}

// setUser makes the user known to Caddy as its own authentication does.
func setUser(r *http.Request, user any) {
	if repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
		repl.Set("http.auth.user.id", user)
	}
}
