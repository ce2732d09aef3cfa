package operations

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"sync"
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

// TestIdleTimeout checks that a silent upstream is a 504.
func TestIdleTimeout(t *testing.T) {
	s := e2e.NewSite(t, "idle_timeout 300ms")
	response, text := s.Post(e2e.ChatBody("hang", nil), nil)
	if response.StatusCode != http.StatusGatewayTimeout {
		t.Errorf("%s %s", response.Status, text)
	}
	if err := s.Model.WaitClosed(e2e.Context(t), 1); err != nil {
		t.Error("the turn was not interrupted:", err)
	}
}

// TestKeepalive checks that a silent stream gets comments, and still ends when the
// upstream is dead.
func TestKeepalive(t *testing.T) {
	s := e2e.NewSite(t, "keepalive 50ms\nidle_timeout 3s")
	response, text := s.Post(e2e.ChatBody("hang", map[string]any{"stream": true}), nil)
	if response.StatusCode != 200 || strings.Count(text, ": keepalive\n\n") < 2 {
		t.Errorf("%s %q", response.Status, text)
	}
	if !strings.Contains(text, "codex_idle_timeout") || !strings.HasSuffix(text, "data: [DONE]\n\n") {
		t.Errorf("how it ends: %q", text)
	}
}

// TestReloadKeepsStreams checks that streams continue after reloads, with the same or a
// changed app-server, and that new requests use the new one.
func TestReloadKeepsStreams(t *testing.T) {
	s := e2e.NewSite(t, "")
	const streams = 8
	body := e2e.ChatBody("chunk=2; delay=20ms; say:"+strings.Repeat("0123456789", 10), map[string]any{"stream": true})
	var wg sync.WaitGroup
	for range streams {
		wg.Go(func() {
			response, text := s.Post(body, nil)
			if response.StatusCode != 200 || !strings.HasSuffix(text, "data: [DONE]\n\n") || e2e.StreamedContent(t, text) != strings.Repeat("0123456789", 10) {
				t.Errorf("a stream was cut: %s %q", response.Status, text)
			}
		})
	}
	s.WaitOpen(streams)
	before := e2e.Children()
	s.Load(s.Caddyfile("idle_timeout 4m\ndrain_timeout 1ms\nmax_concurrent 1\nmax_queue 0"))
	if after := e2e.Children(); strings.Join(after, " ") != strings.Join(before, " ") {
		t.Errorf("an unchanged app_server was replaced: %q, now %q", before, after)
	}
	s.Load(s.Caddyfile(fmt.Sprintf("app_server %s app-server {\nhome %s\nenv CHANGED yes\n}", e2e.CodexBinary, s.Home)))
	s.WaitReady()
	if response, text := s.Post(e2e.ChatBody("say:after", nil), nil); response.StatusCode != 200 || !strings.Contains(text, "after") {
		t.Errorf("%s %s", response.Status, text)
	}
	wg.Wait()
	e2e.WaitFor(t, "the old app-server to end", func() bool { return len(e2e.Children()) <= len(before) })
}

// TestFailedReload checks that a failed reload starts no process and leaves the old
// configuration as it was.
func TestFailedReload(t *testing.T) {
	s := e2e.NewSite(t, "")
	before := e2e.Children()
	err := e2e.LoadCaddyfile(s.Wrap(fmt.Sprintf("codex {\napp_server %s app-server {\nhome %s\nenv OTHER yes\n}\n}\ntls /no/such/cert.pem /no/such/key.pem", e2e.CodexBinary, s.Home)))
	if err == nil {
		t.Fatal("the configuration was accepted")
	}
	if after := e2e.Children(); len(after) != len(before) {
		t.Errorf("processes before %q, after %q", before, after)
	}
	if response, text := s.Post(e2e.ChatBody("say:still here", nil), nil); response.StatusCode != 200 {
		t.Errorf("%s %s", response.Status, text)
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
