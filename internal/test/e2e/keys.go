package e2e

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// KeyFile is a file of API keys.
type KeyFile struct {
	Path string
	t    testing.TB
}

// NewKeyFile writes a file of keys with these options.
func NewKeyFile(t testing.TB, keys map[string]string) *KeyFile {
	t.Helper()
	f := &KeyFile{filepath.Join(t.TempDir(), "keys"), t}
	f.Write(keys)
	return f
}

// Write replaces the keys. The name of each is itself in hexadecimal.
func (f *KeyFile) Write(keys map[string]string) {
	f.t.Helper()
	var content strings.Builder
	for key, options := range keys {
		fmt.Fprintf(&content, "key %x {\nhash sha256:%x\n%s\n}\n", key, sha256.Sum256([]byte(key)), options)
	}
	must.OK(f.t, os.WriteFile(f.Path+".new", []byte(content.String()), 0o600))
	must.OK(f.t, os.Rename(f.Path+".new", f.Path))
}

// Usage returns what /v1/usage says to a key.
func (s *Site) Usage(key string) gjson.Result {
	s.T.Helper()
	response, text := s.Call(http.MethodGet, "/v1/usage", nil, Bearer(key))
	if response.StatusCode != http.StatusOK {
		s.T.Fatal(response.Status, text)
	}
	return gjson.Parse(text)
}

// Used returns what a key has used of its limit of a unit.
func (s *Site) Used(key, unit string) int64 {
	s.T.Helper()
	return s.Usage(key).Get(`keys.0.limits.#(unit=="` + unit + `").used`).Int()
}

// StatusOf returns the status of a request to say something, and its answer.
func StatusOf(s *Site, key string, settings Fields) (status int, text string) {
	s.T.Helper()
	response, text := s.Post(ChatBody("say:ok", settings), Bearer(key))
	return response.StatusCode, text
}
