package operations

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/redisserver"
)

// TestKeysInOutages checks what keys with limits and others get while Redis is killed, stopped, cut
// off, full, emptied and slow, that it is told, and that everything comes back by itself.
func TestKeysInOutages(t *testing.T) {
	server := redisserver.Start(t)
	proxy := server.NewProxy(t)
	file := newKeyFile(t, map[string]string{"sk-limited": "requests 1000 24h\ntokens 1000000 24h", "sk-free": ""})
	options := func(more string) string {
		return "api_keys_file " + file.path + "\nstore redis redis://" + proxy.Addr + more
	}
	s := e2e.NewSite(t, options("?read_timeout=300ms&dial_timeout=300ms"))
	// ask sends a request and returns its status, the code of its error, and how long it took.
	ask := func(key, path, body string) (status int, code string, took time.Duration) {
		t.Helper()
		begin := time.Now()
		response := s.Do(http.MethodPost, path, strings.NewReader(body), e2e.Bearer(key))
		text := s.Read(response)
		if response.StatusCode == http.StatusServiceUnavailable && response.Header.Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After", text)
		}
		code = gjson.Get(text, "error.code").String()
		if path == "/v1/messages" {
			code = gjson.Get(text, "error.message").String()
		}
		return response.StatusCode, code, time.Since(begin)
	}
	chat := func(key string) (int, string, time.Duration) {
		return ask(key, "/v1/chat/completions", e2e.ChatBody("say:ok", nil))
	}
	// fastest is chat, several times if one takes too long: a busy machine may stop for a moment.
	fastest := func(key string, within time.Duration) (status int, code string, took time.Duration) {
		for range 5 {
			if status, code, took = chat(key); status != http.StatusOK || took <= within {
				break
			}
		}
		return status, code, took
	}
	requests := func() int64 { return used(&e2e.Running{Site: s}, "sk-limited", "requests") }
	works := func() bool {
		status, _, _ := chat("sk-limited")
		return status == http.StatusOK
	}
	if !works() || requests() != 1 {
		t.Fatal("it does not work")
	}
	for _, outage := range []struct {
		name       string
		begin, end func()
	}{
		{"killed", server.Kill, server.Restart},
		{"stopped", server.Pause, server.Resume},
		{"cut off", proxy.Cut, proxy.Mend},
	} {
		before := requests()
		outage.begin()
		status, code, took := chat("sk-limited")
		if status != http.StatusServiceUnavailable || code != "key_limits_unavailable" || took > 8*time.Second {
			t.Errorf("%s: %d %s after %s", outage.name, status, code, took)
		}
		status, message, _ := ask("sk-limited", "/v1/messages", `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"say:no"}]}`)
		if status != http.StatusServiceUnavailable || !strings.Contains(message, "cannot be counted at the moment") {
			t.Errorf("%s: %d %s", outage.name, status, message)
		}
		if status, code, took := fastest("sk-free", 5*time.Second); status != http.StatusOK || took > 5*time.Second {
			t.Errorf("%s: a key without limits gets %d %s after %s", outage.name, status, code, took)
		}
		e2e.WaitFor(t, "/readyz to say it", func() bool {
			status, text := s.Get("/readyz")
			return status == http.StatusOK && gjson.Get(text, "store").String() == "unavailable"
		})
		if _, _, took := chat("sk-limited"); took > time.Second {
			t.Errorf("%s: an outage that is known takes %s", outage.name, took)
		}
		outage.end()
		e2e.WaitFor(t, "the end of the outage", works)
		e2e.WaitFor(t, "what was counted", func() bool { return requests() > before })
		if got := requests(); got > before+8 { // those of works, and what was sent and not answered
			t.Errorf("%s: %d requests were counted, before %d", outage.name, got, before)
		}
	}

	for i := 0; !strings.HasPrefix(server.Do(fmt.Sprintf("SETRANGE fill %d y", i<<20)), "-OOM"); i++ {
		if i == 0 {
			server.Do("CONFIG SET maxmemory-policy noeviction")
			server.Do("CONFIG SET maxmemory 16mb")
		}
	}
	before := requests()
	if status, code, _ := chat("sk-limited"); status != http.StatusOK || requests() != before+1 {
		t.Errorf("full: %d %s, %d requests", status, code, requests()-before)
	}
	if status, code, _ := chat("sk-free"); status != http.StatusOK {
		t.Errorf("full: %d %s", status, code)
	}
	server.Do("FLUSHALL")
	if status, code, _ := chat("sk-limited"); status != http.StatusOK || requests() != 1 {
		t.Errorf("emptied: %d %s, %d requests", status, code, requests())
	}

	s.Load(s.Caddyfile(options(""))) // with the default timeouts
	proxy.Slow(2 * time.Second)
	if status, code, took := fastest("sk-free", 2*time.Second); status != http.StatusOK || took > 2*time.Second {
		t.Errorf("slow: %d %s after %s", status, code, took)
	}
	for range 2 { // the first one connects
		status, code, took := chat("sk-limited")
		t.Logf("slow: %d %s after %s", status, code, took)
		if status != http.StatusOK && code != "key_limits_unavailable" || took > 15*time.Second {
			t.Errorf("slow: %d %s after %s", status, code, took)
		}
	}
	proxy.Mend()

	s.Load(s.Caddyfile(options(" {\nfail open\n}")))
	e2e.WaitFor(t, "a connection", works)
	before = requests()
	server.Kill()
	if status, code, _ := chat("sk-limited"); status != http.StatusOK {
		t.Errorf("open: %d %s", status, code)
	}
	server.Restart()
	e2e.WaitFor(t, "the end of the outage", func() bool { return requests() == before })
}
