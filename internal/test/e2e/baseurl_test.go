package e2e

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strings"
	"testing"
)

// TestBaseURLs checks the base URLs that people type, bodies in gzip, keys in the headers
// of other APIs, and unknown paths.
func TestBaseURLs(t *testing.T) {
	s := newSite(t, "api_key k ann")
	s.waitReadyAs(bearer("k"))
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	if _, err := w.Write([]byte(chatBody("say:hello", nil))); err != nil {
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
			body := chatBody("say:hello", nil)
			if header.Get("Content-Encoding") != "" {
				body = zipped.String()
			}
			response := s.do(http.MethodPost, prefix+"/chat/completions", strings.NewReader(body), header)
			text := s.read(response)
			switch {
			case name == "other" && response.StatusCode != http.StatusUnauthorized:
				t.Errorf("%s with a wrong key: %s", prefix, response.Status)
			case name != "other" && (response.StatusCode != http.StatusOK || !strings.Contains(text, `"hello"`)):
				t.Errorf("%s with %s: %s %s", prefix, name, response.Status, text)
			}
		}
	}
	response := s.do(http.MethodPost, "/v1/chat/completions", strings.NewReader("x"), http.Header{"Authorization": {"Bearer k"}, "Content-Encoding": {"br"}})
	if text := s.read(response); response.StatusCode != http.StatusUnsupportedMediaType || !strings.Contains(text, "gzip or zstd") {
		t.Errorf("brotli: %s %s", response.Status, text)
	}
	for path, want := range map[string]string{"/": s.url + "/v1", "/index.html": s.url + "/v1", "/v1/embeddings": "no embeddings"} {
		if status, text := s.get(path); (status != http.StatusNotFound && status != http.StatusUnauthorized) || path != "/v1/embeddings" && !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
}
