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
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

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

// presentedKey returns the key that a request presents, or "": the bearer token in the header
// Authorization or, without that, api-key (of Azure's clients) or x-api-key (of Anthropic's).
func presentedKey(r *http.Request) string {
	if header := r.Header.Get("Authorization"); header != "" {
		scheme, key, _ := strings.Cut(header, " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return ""
		}
		return strings.TrimSpace(key)
	}
	return strings.TrimSpace(cmp.Or(r.Header.Get("Api-Key"), r.Header.Get("X-Api-Key")))
}

// replacerOf returns Caddy's replacer of a request, or an empty one if there is none.
func replacerOf(r *http.Request) *caddy.Replacer {
	if repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
		return repl
	}
	return caddy.NewEmptyReplacer()
}

const userVariable = "http.auth.user.id"

// openKeys reads the file of keys, and watches it until Cleanup.
func (h *Handler) openKeys(ctx caddy.Context, repl *caddy.Replacer) error {
	path, err := h.keyFilePath(repl)
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
	h.keyFile = file
	h.releases = append(h.releases, file.Close)
	return nil
}

func (h *Handler) keyFilePath(repl *caddy.Replacer) (string, error) {
	path, err := option.AbsolutePath(repl, h.APIKeysFile)
	if err != nil {
		return "", fmt.Errorf("api_keys_file: %w", err)
	}
	return path, nil
}

// checkKey checks the key of a request, if the handler has keys, and sets the user. It returns the key if
// the key is in the file of keys. For a key of the configuration, which has no limits, it returns nil.
func (h *Handler) checkKey(r *http.Request) (*quota.Key, *apierror.Error) {
	if h.keyFile == nil && len(h.keys) == 0 {
		return nil, nil
	}
	key := presentedKey(r)
	if k := h.keyFile.Set().Find(key); k != nil {
		if k.Expired(time.Now()) {
			return nil, apierror.KeyExpired(k.Expires)
		}
		replacerOf(r).Set(userVariable, k.User)
		return &k.Key, nil
	}
	user, known := h.keys[sha256.Sum256([]byte(key))]
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
	if k != nil && caddyhttp.GetVar(r.Context(), countedVariable) == k.Account {
		k = k.WithoutRequests() // another handler with this key has counted the request, and has passed it on
	}
	return k, apiErr
}
