package caddymodule

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/apikeys"
	"github.com/caddy-codex/caddy-codex/internal/option"
	"github.com/caddy-codex/caddy-codex/internal/quota"
)

// APIKey is a key by which clients authenticate.
type APIKey struct {
	// The key. Placeholders are resolved when the configuration is loaded.
	Key string `json:"key"`

	// The name of the user who presents the key. It becomes {http.auth.user.id}, for logs, usage
	// and later handlers. Default: `key-1` for the first key, `key-2` for the second, and so on. If
	// another user has the name `key-1`, that user becomes `user:key-1`.
	User string `json:"user,omitempty"`
}

// Keys are the keys by which clients authenticate.
type Keys struct {
	// The keys that clients may present as `Authorization: Bearer KEY`. Without keys here and
	// without api_keys_file, the handler codex checks no key. Placeholders such as {env.KEY} and
	// {file./path} are resolved when the configuration is loaded. Default: none.
	APIKeys []APIKey `json:"api_keys,omitempty"`

	// A file with more keys, which `caddy codex key` makes. A key of the file can have a user, a
	// time of expiry and limits. A change of the file takes effect within seconds, without a
	// reload. Placeholders are resolved when the configuration is loaded. Default: none.
	APIKeysFile string `json:"api_keys_file,omitempty" option:"<name>"`

	keys    keyring
	keyFile *apikeys.File // nil: there is none
}

// keyring maps the hash of each key to the user of the key: a string or an [unnamedKey]. The time of a
// look-up reveals at most a part of a hash, from which nobody can make a key.
type keyring map[apikeys.Hash]any

// unnamedKey is the user of a key without a configured name, as the value of {http.auth.user.id}.
// The type distinguishes such a user from one who was given the same name.
type unnamedKey string

// unnamedPrefix begins an [unnamedKey]. The number of the key follows.
const unnamedPrefix = "key-"

// newKeyring replaces the placeholders in keys and users. It refuses an empty key, and an empty
// placeholder: the rest of such a key would be easy to guess. The errors do not contain a key.
func newKeyring(keys []APIKey, repl *caddy.Replacer) (keyring, error) {
	ring, ordinals := make(keyring, len(keys)), make(map[apikeys.Hash]int, len(keys))
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
			// Each key gets a user of its own: the holders of two keys must not share an account.
			user = unnamedKey(fmt.Sprintf(unnamedPrefix+"%d", i+1))
		}
		hash := sha256.Sum256([]byte(key))
		if first := ordinals[hash]; first > 0 {
			return nil, fmt.Errorf("api_key %d is the same as api_key %d: whose is it?", i+1, first)
		}
		ring[hash], ordinals[hash] = user, i+1
	}
	return ring, nil
}

func (h *Handler) hasSeveralUsers() bool {
	users := slices.Clone(h.keyFile.Set().Users)
	for _, user := range h.keys {
		users = append(users, fmt.Sprint(user))
	}
	return slices.ContainsFunc(users, func(user string) bool { return user != users[0] })
}

// keyHeaders are the headers that can have a key: the bearer token in the header Authorization or,
// without that, api-key (of Azure's clients) or x-api-key (of Anthropic's).
var keyHeaders = []string{"Authorization", "Api-Key", "X-Api-Key"}

// presentedKey returns the key that a request presents, or "". The handler codex_keys may have removed it.
func presentedKey(r *http.Request) string {
	if header := r.Header.Get("Authorization"); header != "" {
		scheme, key, _ := strings.Cut(header, " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return ""
		}
		return strings.TrimSpace(key)
	}
	key := strings.TrimSpace(cmp.Or(r.Header.Get("Api-Key"), r.Header.Get("X-Api-Key")))
	if a := admissionOf(r); key == "" && a != nil {
		return a.key
	}
	return key
}

// replacerOf returns Caddy's replacer of a request, or an empty one if there is none.
func replacerOf(r *http.Request) *caddy.Replacer {
	if repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
		return repl
	}
	return caddy.NewEmptyReplacer()
}

const userVariable = "http.auth.user.id"

// openKeys resolves the keys, and reads and watches the file until Cleanup.
func (k *Keys) openKeys(ctx caddy.Context, repl *caddy.Replacer) (err error) {
	if k.keys, err = newKeyring(k.APIKeys, repl); err != nil {
		return err
	}
	path, err := k.keyFilePath(repl)
	if path == "" || err != nil {
		return err
	}
	file, err := apikeys.Open(path, ctx.Slogger())
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w; `caddy codex key add` makes it", err)
	}
	if err != nil {
		return fmt.Errorf("api_keys_file: %w", err)
	}
	file.Watch()
	k.keyFile = file
	return nil
}

// Cleanup ends the watch of the file.
func (k *Keys) Cleanup() error {
	if k.keyFile != nil {
		k.keyFile.Close()
	}
	return nil
}

func (k *Keys) keyFilePath(repl *caddy.Replacer) (string, error) {
	path, err := option.AbsolutePath(repl, k.APIKeysFile)
	if err != nil {
		return "", fmt.Errorf("api_keys_file: %w", err)
	}
	return path, nil
}

func (k *Keys) areNone() bool { return k.keyFile == nil && len(k.keys) == 0 }

// of returns the keys that apply to a request: k or, if they are none, those of codex_keys before this handler.
func (k *Keys) of(r *http.Request) *Keys {
	if a := admissionOf(r); a != nil && k.areNone() {
		return a.keys
	}
	return k
}

// entryOf returns the entry of a request's key in the file of keys, or nil.
func (k *Keys) entryOf(r *http.Request) *apikeys.Key {
	return k.of(r).keyFile.Set().Find(presentedKey(r))
}

// checkKey checks the key of a request, if there are keys, and sets the user. It returns the key if the key
// is in the file of keys. For a key of the configuration, which has no limits, it returns nil.
func (k *Keys) checkKey(r *http.Request) (*quota.Key, *apierror.Error) {
	if k = k.of(r); k.areNone() {
		return nil, nil
	}
	if entry := k.entryOf(r); entry != nil {
		if entry.Expired(time.Now()) {
			return nil, apierror.KeyExpired(entry.Expires)
		}
		replacerOf(r).Set(userVariable, entry.User)
		return &entry.Key, nil
	}
	user, known := k.keys[sha256.Sum256([]byte(presentedKey(r)))]
	if !known {
		return nil, apierror.Unauthorized()
	}
	replacerOf(r).Set(userVariable, user)
	return nil, nil
}

// recheckKey checks the key of a request on a WebSocket again: checkKey may have checked it long ago. If
// the key belongs to another user now, the request is refused, and the client has to connect again.
func (h *Handler) recheckKey(r *http.Request) (*quota.Key, *apierror.Error) {
	repl := replacerOf(r)
	before, _ := repl.Get(userVariable)
	k, apiErr := h.checkKey(r)
	if now, _ := repl.Get(userVariable); now != before {
		repl.Set(userVariable, before) // the next check must refuse the key, too
		return nil, apierror.Unauthorized()
	}
	return takeOver(r, k), apiErr
}
