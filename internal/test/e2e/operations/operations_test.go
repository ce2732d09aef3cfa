package operations

import (
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

// TestBehindOtherHandlers checks the handler behind Caddy's own handlers.
func TestBehindOtherHandlers(t *testing.T) {
	s := e2e.NewSite(t, "")
	s.Load(s.Wrap(`encode gzip
		basic_auth {
			bob ` + e2e.BobsHash + `
		}
		request_body {
			max_size 2KB
		}
		codex {
			` + s.AppServer() + `
		}
		respond "not the API"`))
	auth := http.Header{"Authorization": {"Basic Ym9iOnNlY3JldA=="}}
	if response, _ := s.Post(e2e.ChatBody("say:ok", nil), nil); response.StatusCode != 401 {
		t.Error("basic_auth comes first:", response.Status)
	}
	auth.Set("Accept-Encoding", "gzip")
	response, text := s.Post(e2e.ChatBody("say:ok", map[string]any{"stream": true}), auth)
	if response.StatusCode != 200 || response.Header.Get("Content-Encoding") != "" || !strings.HasSuffix(text, "data: [DONE]\n\n") {
		t.Errorf("a stream behind encode: %s %v %q", response.Status, response.Header, text)
	}
	response, text = s.Post(e2e.ChatBody(strings.Repeat("x", 3000), nil), auth)
	if response.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("a body over request_body's limit: %s %s", response.Status, text)
	}
	response = s.Do("GET", "/elsewhere", nil, auth)
	if text := s.Read(response); response.StatusCode != 200 || !strings.Contains(text, "not the API") {
		t.Errorf("other paths go on: %s %q", response.Status, text)
	}
}
