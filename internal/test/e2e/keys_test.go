package e2e

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// keyFile is a file of API keys.
type keyFile struct {
	t    testing.TB
	path string
}

func newKeyFile(t testing.TB, keys map[string]string) *keyFile {
	t.Helper()
	f := &keyFile{t, filepath.Join(t.TempDir(), "keys")}
	f.write(keys)
	return f
}

// write replaces the file. The keys have these options.
func (f *keyFile) write(keys map[string]string) {
	f.t.Helper()
	var content strings.Builder
	for key, options := range keys {
		fmt.Fprintf(&content, "key id-%s {\nhash sha256:%x\n%s\n}\n", key, sha256.Sum256([]byte(key)), options)
	}
	if err := os.WriteFile(f.path+".new", []byte(content.String()), 0o600); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Rename(f.path+".new", f.path); err != nil {
		f.t.Fatal(err)
	}
}

// status returns the status of a request to say something.
func (s *site) statusOf(key string, settings fields) (status int, text string) {
	s.t.Helper()
	response, text := s.post(chatBody("say:ok", settings), bearer(key))
	return response.StatusCode, text
}

// TestKeyFile checks keys of a file with the real codex: expired, limited to models, made
// and revoked without a reload, also for a WebSocket that is open.
func TestKeyFile(t *testing.T) {
	keys := map[string]string{
		"sk-ann": "user ann", "sk-bob": "user bob\nmodels fast", "sk-old": "user ann\nexpires 2020-01-01",
	}
	file := newKeyFile(t, keys)
	s := newSite(t, "model fast gpt-5.5\napi_keys_file "+file.path)
	for key, want := range map[string]int{
		"sk-ann": http.StatusOK, "sk-bob": http.StatusNotFound, "sk-old": http.StatusUnauthorized, "sk-new": http.StatusUnauthorized,
	} {
		if status, text := s.statusOf(key, nil); status != want || key == "sk-old" && !strings.Contains(text, "expired at 2020-01-01") {
			t.Errorf("%s: %d %s", key, status, text)
		}
	}
	if status, text := s.statusOf("sk-bob", fields{"model": "fast"}); status != http.StatusOK {
		t.Error("an allowed model:", status, text)
	}
	response := s.do(http.MethodGet, "/v1/models", nil, bearer("sk-bob"))
	if list := s.read(response); strings.Count(list, `"object":"model"`) != 1 || !strings.Contains(list, `"fast"`) {
		t.Error("the models of bob:", list)
	}
	for model, want := range map[string]int{"fast": http.StatusOK, "gpt-5.5": http.StatusNotFound} {
		response := s.do(http.MethodGet, "/v1/models/"+model, nil, bearer("sk-bob"))
		if s.read(response); response.StatusCode != want {
			t.Errorf("the model %s: %s", model, response.Status)
		}
	}
	socket := s.dialResponses(bearer("sk-ann"))
	socket.respond(fields{"model": "gpt-5.5", "input": "say:ok"})

	delete(keys, "sk-ann")
	keys["sk-new"] = "user ann"
	file.write(keys)
	waitFor(t, "the new key", func() bool { status, _ := s.statusOf("sk-new", nil); return status == http.StatusOK })
	if status, text := s.statusOf("sk-ann", nil); status != http.StatusUnauthorized {
		t.Error("the revoked key:", status, text)
	}
	if _, refused := socket.ask(fields{"model": "gpt-5.5", "input": "say:ok"}); refused == nil || *refused.Error.Code != "invalid_api_key" {
		t.Errorf("the WebSocket of the revoked key: %+v", refused)
	}
}
