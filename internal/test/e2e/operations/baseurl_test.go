package operations

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

// TestBaseURLs checks the base URLs that people type, bodies in gzip, keys in the headers
// of other APIs, and unknown paths.
func TestBaseURLs(t *testing.T) {
	s := e2e.NewSite(t, "api_key k ann")
	s.WaitReadyAs(e2e.Bearer("k"))
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	if _, err := w.Write([]byte(e2e.ChatBody("say:hello", nil))); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, prefix := range []string{"/v1", "", "/v1/v1", "//v1", "/openai/v1", "/openai/deployments/gpt-5"} {
		for name, header := range map[string]http.Header{
			"bearer": {"Authorization": {"Bearer k"}},
			"azure":  {"Api-Key": {"k"}, "Content-Encoding": {"gzip"}},
			"other":  {"X-Api-Key": {"wrong"}},
		} {
			body := e2e.ChatBody("say:hello", nil)
			if header.Get("Content-Encoding") != "" {
				body = zipped.String()
			}
			response := s.Do(http.MethodPost, prefix+"/chat/completions", strings.NewReader(body), header)
			text := s.Read(response)
			switch {
			case name == "other" && response.StatusCode != http.StatusUnauthorized:
				t.Errorf("%s with a wrong key: %s", prefix, response.Status)
			case name != "other" && (response.StatusCode != http.StatusOK || !strings.Contains(text, `"hello"`)):
				t.Errorf("%s with %s: %s %s", prefix, name, response.Status, text)
			}
		}
	}
	response := s.Do(http.MethodPost, "/v1/chat/completions", strings.NewReader("x"), http.Header{"Authorization": {"Bearer k"}, "Content-Encoding": {"br"}})
	if text := s.Read(response); response.StatusCode != http.StatusUnsupportedMediaType || !strings.Contains(text, "gzip or zstd") {
		t.Errorf("brotli: %s %s", response.Status, text)
	}
	for path, want := range map[string]string{"/": s.URL + "/v1", "/index.html": s.URL + "/v1", "/v1/embeddings": "no embeddings"} {
		if status, text := s.Get(path); (status != http.StatusNotFound && status != http.StatusUnauthorized) || path != "/v1/embeddings" && !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
}
