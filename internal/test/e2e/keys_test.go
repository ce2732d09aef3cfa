package e2e

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
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

// TestKeyRequests sends many requests at once with one key, and then by every route.
func TestKeyRequests(t *testing.T) {
	file := newKeyFile(t, map[string]string{"sk-many": "requests 10 1h\nrequests 1000 day", "sk-each": "requests 6 24h"})
	s := newSite(t, "api_keys_file "+file.path)
	var ok, limited atomic.Int64
	var all sync.WaitGroup
	for range 40 {
		all.Go(func() {
			response, text := s.post(chatBody("say:ok", nil), bearer("sk-many"))
			switch response.StatusCode {
			case http.StatusOK:
				ok.Add(1)
			case http.StatusTooManyRequests:
				limited.Add(1)
				if !strings.Contains(text, `"code":"rate_limit_exceeded"`) || response.Header.Get("Retry-After") == "" || response.Header.Get("X-Should-Retry") != "false" {
					t.Error(response.Header, text)
				}
			default:
				t.Error(response.Status, text)
			}
		})
	}
	all.Wait()
	if ok.Load() != 10 || limited.Load() != 30 {
		t.Errorf("%d were answered, %d refused", ok.Load(), limited.Load())
	}

	for i, path := range []string{"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/responses/input_tokens"} {
		body := []string{
			chatBody("say:ok", nil), `{"model":"gpt-5","prompt":"say:ok"}`, `{"model":"gpt-5","input":"say:ok"}`, `{"model":"gpt-5","input":"say:ok"}`,
		}[i]
		response := s.do(http.MethodPost, path, strings.NewReader(body), bearer("sk-each"))
		text := s.read(response)
		if left := response.Header.Get("X-Ratelimit-Remaining-Requests"); response.StatusCode != http.StatusOK || left != strconv.Itoa(5-i) {
			t.Errorf("%s: %s, %s left, %s", path, response.Status, left, text)
		}
	}
	background := s.do(http.MethodPost, "/v1/responses", strings.NewReader(encodeJSON(asks("say:ok", fields{"background": true}))), bearer("sk-each"))
	if text := s.read(background); background.StatusCode != http.StatusOK {
		t.Error("in the background:", background.Status, text)
	}
	socket := s.dialResponses(bearer("sk-each"))
	socket.respond(fields{"model": "gpt-5", "input": "say:ok"})
	if _, refused := socket.ask(fields{"model": "gpt-5", "input": "say:ok"}); refused == nil || *refused.Error.Code != "rate_limit_exceeded" {
		t.Errorf("over a WebSocket: %+v", refused)
	}
	if response, text := s.post("{", bearer("sk-each")); response.StatusCode != http.StatusTooManyRequests {
		t.Error("a request that is wrong:", response.Status, text)
	}
	response := s.do(http.MethodGet, "/v1/models", nil, bearer("sk-each"))
	if text := s.read(response); response.StatusCode != http.StatusOK {
		t.Error("the models:", response.Status, text)
	}

	// Neither a reload nor a change of the file frees anything.
	s.load(s.caddyfile("reasoning off\napi_keys_file " + file.path))
	file.write(map[string]string{"sk-many": "requests 10 1h\nuser x", "sk-each": "requests 7 24h"})
	waitFor(t, "the file is read", func() bool { status, _ := s.statusOf("sk-each", nil); return status == http.StatusOK })
	for _, key := range []string{"sk-many", "sk-each"} {
		if status, text := s.statusOf(key, nil); status != http.StatusTooManyRequests {
			t.Errorf("%s after changes: %d %s", key, status, text)
		}
	}
}

// TestKeyConcurrency checks how many turns of a key run at once.
func TestKeyConcurrency(t *testing.T) {
	file := newKeyFile(t, map[string]string{"sk-two": "max_concurrent 2", "sk-other": "max_concurrent 2"})
	s := newSite(t, "api_keys_file "+file.path)
	s.waitReady()
	ctx, leave := context.WithCancel(testContext(t))
	defer leave()
	for range 2 {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/chat/completions", strings.NewReader(chatBody("say:x; hang", fields{"stream": true})))
		if err != nil {
			t.Fatal(err)
		}
		request.Header = bearer("sk-two")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
	}
	response, text := s.post(chatBody("say:ok", nil), bearer("sk-two"))
	if response.StatusCode != http.StatusTooManyRequests || response.Header.Get("Retry-After") != "1" || !strings.Contains(text, "rate_limit_exceeded") {
		t.Error("the third:", response.Status, text)
	}
	if status, text := s.statusOf("sk-other", nil); status != http.StatusOK {
		t.Error("another key:", status, text)
	}
	if status, text := s.statusOf("sk-other", fields{"n": 3}); status != http.StatusBadRequest || !strings.Contains(text, `"param":"n"`) {
		t.Error("more choices than turns:", status, text)
	}
	leave()
	waitFor(t, "the places are free", func() bool { status, _ := s.statusOf("sk-two", nil); return status == http.StatusOK })
}
