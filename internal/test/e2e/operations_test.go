package e2e

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func bearer(key string) http.Header {
	return http.Header{"Authorization": {"Bearer " + key}}
}

func TestAPIKeys(t *testing.T) {
	t.Setenv("TEST_CODEX_KEY", "sk-from-env")
	s := newSite(t, "api_key sk-alice alice\napi_key {env.TEST_CODEX_KEY}")
	for key, want := range map[string]int{"sk-alice": 200, "sk-from-env": 200, "sk-wrong": 401, "": 401} {
		response, text := s.post(chatBody("say:ok", nil), bearer(key))
		if response.StatusCode != want {
			t.Errorf("key %q: %s %s", key, response.Status, text)
		}
		if want == 401 {
			checkEnvelope(t, response, text, "")
		}
	}
	if response, text := s.post("{bad", nil); response.StatusCode != 401 {
		t.Errorf("the key is looked at first: %s %s", response.Status, text)
	}
	if status, _ := s.get("/healthz"); status != 200 {
		t.Error("probes need no key:", status)
	}
	if err := loadCaddyfile(s.caddyfile("api_key {env.TEST_NO_SUCH_KEY}")); err == nil {
		t.Error("an empty key is accepted")
	}
}

// TestBehindOtherHandlers checks the handler behind Caddy's own handlers.
func TestBehindOtherHandlers(t *testing.T) {
	s := newSite(t, "")
	s.load(s.wrap(`encode gzip
		basic_auth {
			bob ` + bobsHash + `
		}
		request_body {
			max_size 2KB
		}
		codex {
			` + s.appServer() + `
		}
		respond "not the API"`))
	auth := http.Header{"Authorization": {"Basic Ym9iOnNlY3JldA=="}}
	if response, _ := s.post(chatBody("say:ok", nil), nil); response.StatusCode != 401 {
		t.Error("basic_auth comes first:", response.Status)
	}
	auth.Set("Accept-Encoding", "gzip")
	response, text := s.post(chatBody("say:ok", map[string]any{"stream": true}), auth)
	if response.StatusCode != 200 || response.Header.Get("Content-Encoding") != "" || !strings.HasSuffix(text, "data: [DONE]\n\n") {
		t.Errorf("a stream behind encode: %s %v %q", response.Status, response.Header, text)
	}
	response, text = s.post(chatBody(strings.Repeat("x", 3000), nil), auth)
	if response.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("a body over request_body's limit: %s %s", response.Status, text)
	}
	response = s.do("GET", "/elsewhere", nil, auth)
	if text := s.read(response); response.StatusCode != 200 || !strings.Contains(text, "not the API") {
		t.Errorf("other paths go on: %s %q", response.Status, text)
	}
}

// TestRequestID checks that a valid id of the client is in the answer.
func TestRequestID(t *testing.T) {
	s := newSite(t, "")
	for sent, back := range map[string]bool{"req-42": true, "two words": false, "": false, strings.Repeat("x", 200): false} {
		response := s.do("GET", "/healthz", nil, http.Header{"X-Request-Id": {sent}})
		s.read(response)
		got := response.Header.Get("X-Request-Id")
		if got == "" || (got == sent) != back {
			t.Errorf("sent %q, got %q", sent, got)
		}
	}
}

// TestMaxConcurrent checks that turns above the limit are refused, and that a slot is
// free again after a turn.
func TestMaxConcurrent(t *testing.T) {
	s := newSite(t, "max_concurrent 2\nmax_queue 0")
	var wg sync.WaitGroup
	ctx, release := contextFor(t)
	for range 2 {
		wg.Go(func() { s.postUntil(ctx, chatBody("hang", nil), nil) })
	}
	s.waitOpen(2)
	response, text := s.post(chatBody("say:ok", nil), nil)
	if response.StatusCode != 429 || response.Header.Get("Retry-After") == "" || !strings.Contains(text, `"code":"codex_queue_full"`) {
		t.Errorf("%s %v %s", response.Status, response.Header, text)
	}
	release()
	wg.Wait()
	waitFor(t, "a place after the others have gone", func() bool {
		response, _ := s.post(chatBody("say:ok", nil), nil)
		return response.StatusCode == 200
	})
}

// TestIdleTimeout checks that a silent upstream is a 504.
func TestIdleTimeout(t *testing.T) {
	s := newSite(t, "idle_timeout 300ms")
	response, text := s.post(chatBody("hang", nil), nil)
	if response.StatusCode != http.StatusGatewayTimeout {
		t.Errorf("%s %s", response.Status, text)
	}
	if err := s.model.WaitClosed(testContext(t), 1); err != nil {
		t.Error("the turn was not interrupted:", err)
	}
}

// TestKeepalive checks that a silent stream gets comments, and still ends when the
// upstream is dead.
func TestKeepalive(t *testing.T) {
	s := newSite(t, "keepalive 50ms\nidle_timeout 3s")
	response, text := s.post(chatBody("hang", map[string]any{"stream": true}), nil)
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
	s := newSite(t, "")
	const streams = 8
	body := chatBody("chunk=2; delay=20ms; say:"+strings.Repeat("0123456789", 10), map[string]any{"stream": true})
	var wg sync.WaitGroup
	for range streams {
		wg.Go(func() {
			response, text := s.post(body, nil)
			if response.StatusCode != 200 || !strings.HasSuffix(text, "data: [DONE]\n\n") || streamedContent(t, text) != strings.Repeat("0123456789", 10) {
				t.Errorf("a stream was cut: %s %q", response.Status, text)
			}
		})
	}
	s.waitOpen(streams)
	before := children()
	s.load(s.caddyfile("idle_timeout 4m\ndrain_timeout 1ms\nmax_concurrent 1\nmax_queue 0"))
	if after := children(); strings.Join(after, " ") != strings.Join(before, " ") {
		t.Errorf("an unchanged app_server was replaced: %q, now %q", before, after)
	}
	s.load(s.caddyfile(fmt.Sprintf("app_server %s app-server {\nhome %s\nenv CHANGED yes\n}", codexBinary, s.home)))
	s.waitReady()
	if response, text := s.post(chatBody("say:after", nil), nil); response.StatusCode != 200 || !strings.Contains(text, "after") {
		t.Errorf("%s %s", response.Status, text)
	}
	wg.Wait()
	waitFor(t, "the old app-server to end", func() bool { return len(children()) <= len(before) })
}

// TestFailedReload checks that a failed reload starts no process and leaves the old
// configuration as it was.
func TestFailedReload(t *testing.T) {
	s := newSite(t, "")
	before := children()
	err := loadCaddyfile(s.wrap(fmt.Sprintf("codex {\napp_server %s app-server {\nhome %s\nenv OTHER yes\n}\n}\ntls /no/such/cert.pem /no/such/key.pem", codexBinary, s.home)))
	if err == nil {
		t.Fatal("the configuration was accepted")
	}
	if after := children(); len(after) != len(before) {
		t.Errorf("processes before %q, after %q", before, after)
	}
	if response, text := s.post(chatBody("say:still here", nil), nil); response.StatusCode != 200 {
		t.Errorf("%s %s", response.Status, text)
	}
}

// TestMissingCodex checks that Caddy runs without codex, and says what to do.
func TestMissingCodex(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(broken, []byte("#!/bin/sh\necho 'my config is broken' >&2\nexit 3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for command, says := range map[string]string{"/no/such/codex": "check the command", broken: "has no argument app-server"} {
		s := &site{t: t, addr: freeAddr(t)}
		s.url = "http://" + s.addr
		s.load(s.caddyfile("app_server " + command))
		waitFor(t, "the reason in /readyz", func() bool {
			status, text := s.get("/readyz")
			return status == http.StatusServiceUnavailable && strings.Contains(text, says)
		})
		if status, _ := s.get("/healthz"); status != 200 {
			t.Error("healthz:", status)
		}
		// A request may wait for a start in progress. To try again is no use.
		response, text := s.post(chatBody("say:ok", nil), nil)
		if response.StatusCode != 503 || response.Header.Get("X-Should-Retry") != "false" || !strings.Contains(text, "codex_not_ready") {
			t.Errorf("%s %v %s", response.Status, response.Header, text)
		}
		checkEnvelope(t, response, text, "")
	}
}

// TestSlowReader checks that a client which stops reading does not delay others.
func TestSlowReader(t *testing.T) {
	s := newSite(t, "")
	ctx, release := contextFor(t)
	defer release()
	request, err := http.NewRequestWithContext(ctx, "POST", s.url+"/v1/chat/completions",
		strings.NewReader(chatBody("chunk=all; say:"+strings.Repeat("flood ", 1000), map[string]any{"stream": true})))
	if err != nil {
		t.Fatal(err)
	}
	slow, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Body.Close()
	if _, err := bufio.NewReader(slow.Body).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if response, text := s.post(chatBody("say:quick", nil), nil); response.StatusCode != 200 {
			t.Fatalf("%s %s", response.Status, text)
		}
	}
}

func waitFor(t testing.TB, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(deadline); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("waited in vain for ", what)
		}
	}
}
