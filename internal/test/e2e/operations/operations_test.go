package operations

import (
	"bufio"
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

// TestKeepalive checks that a silent stream gets comments, and still ends when the
// upstream is dead.
func TestKeepalive(t *testing.T) {
	s := e2e.NewSite(t, "keepalive 50ms\nidle_timeout 6s")
	response, text := s.Post(e2e.ChatBody("hang", map[string]any{"stream": true}), nil)
	if response.StatusCode != 200 || strings.Count(text, ": keepalive\n\n") < 2 {
		t.Errorf("%s %q", response.Status, text)
	}
	if !strings.Contains(text, "codex_idle_timeout") || !strings.HasSuffix(text, "data: [DONE]\n\n") {
		t.Errorf("how it ends: %q", text)
	}
}

// TestSlowReader checks that a client which stops reading does not delay others.
func TestSlowReader(t *testing.T) {
	s := e2e.NewSite(t, "")
	ctx, release := e2e.ContextWithCancel(t)
	defer release()
	slow, err := s.Chat(ctx, e2e.ChatBody("chunk=all; say:"+strings.Repeat("flood ", 1000), map[string]any{"stream": true}), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Body.Close()
	if _, err := bufio.NewReader(slow.Body).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if response, text := s.Post(e2e.ChatBody("say:quick", nil), nil); response.StatusCode != 200 {
			t.Fatalf("%s %s", response.Status, text)
		}
	}
}
