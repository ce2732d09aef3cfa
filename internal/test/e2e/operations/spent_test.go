package operations

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/codexhome"
	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/planbackend"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// arrival is a request as the server behind `reverse_proxy` got it.
type arrival struct {
	method, uri, hash string
	header            http.Header
	length            int64
}

// echo is that server. Its answers have the header Echo, with the hash of the body.
type echo struct {
	*httptest.Server
	mu  sync.Mutex
	all []arrival
}

func hashOf(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

func newEcho(t *testing.T) *echo {
	e := new(echo)
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error("the next handler cannot read the body:", err)
		}
		got := arrival{r.Method, r.RequestURI, hashOf(body), r.Header, r.ContentLength}
		e.mu.Lock()
		e.all = append(e.all, got)
		e.mu.Unlock()
		w.Header().Set("Echo", got.hash)
		w.Header().Set("X-Request-Id", "of-echo")
		w.Header().Set("Content-Type", "text/event-stream")
		for range 3 {
			fmt.Fprint(w, "data: echo\n\n")
			w.(http.Flusher).Flush()
		}
	}))
	t.Cleanup(e.Close)
	return e
}

// take returns what has arrived since the last call.
func (e *echo) take() (all []arrival) {
	e.mu.Lock()
	defer e.mu.Unlock()
	all, e.all = e.all, nil
	return all
}

// proxyTo returns directives that send everything to a server, which gets the client's headers alone.
func proxyTo(e *echo) string {
	return "reverse_proxy " + strings.TrimPrefix(e.URL, "http://") + " {\nheader_up -X-Forwarded-*\nheader_up -Via\n}"
}

// spentSite returns a site whose login has a plan of which nothing is left if spent, with options of codex
// and the directives after it.
func spentSite(t *testing.T, spent bool, options, after string) (*e2e.Site, e2e.Home) {
	t.Helper()
	e2e.WithLogin(t)
	model := scriptedmodel.New(scriptedmodel.Options{})
	home := e2e.NewHome(t, model, codexhome.Options{})
	t.Cleanup(model.Close)
	home.Login.SetMeters(planbackend.AllMeters(0))
	if spent {
		home.Login.Change(planbackend.PlanMeter, func(m *planbackend.Meter) { m.Use(100) })
	}
	s := e2e.NewSite(t, "")
	s.Load(s.Wrap("codex {\napp_server " + e2e.CodexBinary + " app-server {\nhome " + home.Dir + "\n}\nspent next\n" + options + "\n}\n" + after))
	e2e.WaitFor(t, "the app-server", func() bool {
		_, ready := s.Readiness()
		return ready.AppServer == "ready"
	})
	return s, home
}

// TestSpentNext checks what the next handler and the client get when the plan is spent, with each API.
func TestSpentNext(t *testing.T) {
	e := newEcho(t)
	keys := e2e.NewKeyFile(t, map[string]string{"sk-may": "requests 1000 1h\ntokens 100000 1h\nmax_concurrent 1", "sk-stays": "spent no"})
	s, home := spentSite(t, true, "ollama on\nimages on\ncors https://page.example\napi_keys_file "+keys.Path, proxyTo(e))
	asked := 0 // requests of the model
	chat := e2e.ChatBody("say:ok", nil)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte(chat))
	must.OK(t, z.Close())
	key := e2e.Bearer("sk-may")
	for i, c := range []struct {
		path, body string
		header     http.Header
	}{
		{"/v1/chat/completions", chat, nil}, // this one finds the plan spent
		{"/v1/chat/completions?a=1&b=%20/", chat, http.Header{"X-Request-Id": {"mine"}, "Origin": {"https://page.example"}}},
		{"/v1//v1/chat/completions/", chat, http.Header{"X-Request-Id": {"not valid\u00e4"}}},
		{"/v1/chat/completions", e2e.ChatBody("say:ok", e2e.Fields{"stream": true}), nil},
		{"/v1/chat/completions", packed.String(), http.Header{"Content-Encoding": {"gzip"}}},
		{"/v1/responses", `{"model":"gpt-5.5","input":"say:ok","stream":true}`, nil},
		{"/v1/responses", `{"model":"gpt-5.5","input":"say:ok","background":true}`, nil},
		{"/v1/messages?beta=true", `{"model":"gpt-5.5","max_tokens":9,"messages":[{"role":"user","content":"say:ok"}]}`, http.Header{"Anthropic-Version": {"2023-06-01"}}},
		{"/api/chat", `{"model":"gpt-5.5","messages":[{"role":"user","content":"say:ok"}]}`, nil},
		{"/api/generate", `{"model":"gpt-5.5","prompt":"say:ok"}`, nil},
	} {
		header := key.Clone()
		for name, values := range c.header {
			header[name] = values
		}
		response, text := s.Call(http.MethodPost, c.path, c.body, header)
		all := e.take()
		if response.StatusCode != http.StatusOK || text != strings.Repeat("data: echo\n\n", 3) || len(all) != 1 {
			t.Errorf("%s: %s %s, and %d requests came", c.path, response.Status, text, len(all))
			continue
		}
		got := all[0]
		if got.method != http.MethodPost || got.uri != c.path || got.hash != hashOf([]byte(c.body)) || got.length != int64(len(c.body)) {
			t.Errorf("%s: %+v", c.path, got)
		}
		header.Set("User-Agent", "Go-http-client/1.1")
		header["Content-Length"] = got.header["Content-Length"]
		if header.Get("Content-Encoding") == "" {
			header.Set("Accept-Encoding", "gzip")
		}
		header["Accept-Encoding"] = got.header["Accept-Encoding"]
		if fmt.Sprint(got.header) != fmt.Sprint(header) {
			t.Errorf("%s: the header is\n%v, not\n%v", c.path, got.header, header)
		}
		for name, values := range response.Header {
			if len(values) > 1 && name != "Via" || strings.HasPrefix(name, "X-Codex") || strings.HasPrefix(name, "X-Ratelimit") || strings.HasPrefix(name, "Access-Control") || name == "Vary" || name == "X-Proxy-Output-Mode" || name == "Request-Id" {
				t.Errorf("%s: the answer has %s: %q", c.path, name, values)
			}
		}
		if id := response.Header["X-Request-Id"]; len(id) != 1 || id[0] != "of-echo" {
			t.Errorf("%s: the id is %q", c.path, id)
		}
		if n := home.Plan.Count(planbackend.Responses) + home.Plan.Count(planbackend.Socket); n == 0 || i > 0 && n != asked {
			t.Errorf("request %d: the provider was asked %d times, %d before", i, n, asked)
		} else {
			asked = n
		}
	}
	if used := s.Used("sk-may", "requests") + s.Used("sk-may", "tokens"); used != 0 {
		t.Errorf("the key has used %d", used)
	}
	response, raw := s.Call(http.MethodGet, "/v1/usage/raw", nil, key)
	if n := strings.Count(raw, `"code":"spent_next"`); response.StatusCode != http.StatusOK || n != 10 || strings.Count(raw, `"model":"gpt-5`) != n {
		t.Errorf("%d are listed: %s", n, raw)
	}
	for name, c := range map[string]struct {
		path, body, key string
		status          int
	}{
		"a key that stays": {"/v1/chat/completions", chat, "sk-stays", http.StatusTooManyRequests},
		"invalid":          {"/v1/chat/completions", `{"model":"gpt-5.5"`, "sk-may", http.StatusBadRequest},
		"a wrong key":      {"/v1/chat/completions", chat, "sk-other", http.StatusUnauthorized},
		"a count":          {"/v1/messages/count_tokens", `{"model":"gpt-5.5","messages":[{"role":"user","content":"say:ok"}]}`, "sk-may", http.StatusOK},
	} {
		if response, text := s.Call(http.MethodPost, c.path, c.body, e2e.Bearer(c.key)); response.StatusCode != c.status || len(e.take()) > 0 {
			t.Errorf("%s: %s %s", name, response.Status, text)
		}
	}
}

// TestSpentNextUnanswered checks that the client gets the error if no handler follows, or only one that fails.
func TestSpentNextUnanswered(t *testing.T) {
	s, _ := spentSite(t, true, "cors *", "")
	for range 2 { // with the provider's answer, and without
		response, text := s.Post(e2e.ChatBody("say:ok", nil), nil)
		if response.StatusCode != http.StatusTooManyRequests || !strings.Contains(text, `"code":"insufficient_quota"`) || len(response.Header["X-Request-Id"]) != 1 || response.Header.Get("Access-Control-Allow-Origin") != "" || response.Header.Get("Vary") != "Origin" {
			t.Errorf("%s %v %s", response.Status, response.Header, text)
		}
	}
	if _, raw := s.Get("/v1/usage/raw"); strings.Contains(raw, "spent_next") {
		t.Error(raw)
	}
}
