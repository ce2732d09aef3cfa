package caddymodule

import (
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/apikeys"
	"github.com/caddy-codex/caddy-codex/internal/quota"
)

// openKeys reads the file of keys and begins to watch it until Cleanup.
func (h *Handler) openKeys(ctx caddy.Context, repl *caddy.Replacer) error {
	path, err := h.keyFilePath(repl)
	if path == "" || err != nil {
		return err
	}
	file, err := apikeys.Open(path, ctx.Slogger())
	if err != nil {
		return fmt.Errorf("api_keys_file: %w", err)
	}
	file.Watch()
	h.keyFile = file
	return nil
}

// closeKeys ends the checks of the file of keys. It may be called more than once.
func (h *Handler) closeKeys() {
	if h.keyFile != nil {
		h.keyFile.Close()
	}
}

// keyFilePath returns the absolute path of the file of keys, empty if there is none.
func (h *Handler) keyFilePath(repl *caddy.Replacer) (string, error) {
	if h.APIKeysFile == "" {
		return "", nil
	}
	path, err := repl.ReplaceOrErr(h.APIKeysFile, true, true)
	if err != nil {
		return "", errors.New("api_keys_file has a placeholder that is empty or unknown")
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", fmt.Errorf("api_keys_file: %w", err)
	}
	return path, nil
}

// authenticate checks the key that a request presents, if there are keys, and sets the
// user.
func (h *Handler) authenticate(r *http.Request) *apierror.Error {
	if h.keyFile != nil {
		k, apiErr := h.keyOf(r)
		if k != nil {
			setUser(r, k.User)
		}
		return apiErr
	}
	if !h.keys.allows(r) {
		return apierror.Unauthorized()
	}
	return nil
}

// keyOf returns the key in the file that a request presents, or nil if it presents one of
// the configuration, which has no limits.
func (h *Handler) keyOf(r *http.Request) (*quota.Key, *apierror.Error) {
	k := h.keyFile.Set().Find(presentedKey(r))
	switch {
	case k == nil && len(h.keys) > 0 && h.keys.allows(r):
		return nil, nil
	case k == nil:
		return nil, apierror.Unauthorized()
	case k.Expired(time.Now()):
		return nil, apierror.KeyExpired(k.Expires)
	}
	return &k.Key, nil
}
