package caddymodule

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/ollamacheck"
)

// ollamaHandler returns the configuration of a handler with Ollama's API.
func ollamaHandler(t *testing.T) *Handler {
	t.Helper()
	h := fakeHandler(t, t.Name())
	h.Ollama = true
	return h
}

// TestOllamaRoutes: every path of Ollama's API has an answer that its clients can read, and the
// other APIs keep theirs.
func TestOllamaRoutes(t *testing.T) {
	h := running(t, ollamaHandler(t))
	const refused, none = "the models of this server cannot be changed", "this model does not support embeddings"
	for request, want := range map[string]struct {
		status int
		text   string // of the error, or a part of the body
	}{
		"GET /":                         {200, "Ollama is running"},
		"HEAD /":                        {200, ""},
		"POST /":                        {405, "GET"},
		"GET /api/version":              {200, `{"version":"0.17.4"}`},
		"HEAD /api/tags":                {200, ""},
		"GET /api/tags":                 {200, `"name":"plain:latest"`},
		"GET /api/tags/":                {200, `"name":"plain:latest"`},
		"GET //api//tags":               {200, `"name":"plain:latest"`},
		"GET /v1/api/tags":              {200, `"name":"plain:latest"`},
		"GET /api/api/tags":             {200, `"name":"plain:latest"`},
		"GET /api/ps":                   {200, `{"models":[]}`},
		"POST /api/show":                {200, `"general.basename"`},
		"POST /api/pull":                {200, `{"status":"success"}`},
		"POST /api/embed":               {501, none},
		"POST /api/embeddings":          {501, none},
		"POST /api/create":              {403, refused},
		"POST /api/copy":                {403, refused},
		"POST /api/push":                {403, refused},
		"DELETE /api/delete":            {403, refused},
		"HEAD /api/blobs/sha256:0":      {403, ""},
		"POST /api/blobs/sha256:0":      {403, refused},
		"GET /api/chat":                 {405, "POST"},
		"POST /api/tags":                {405, "GET"},
		"GET /api/none":                 {404, "/api/none"},
		"POST /api/generate":            {200, `"done_reason":"load"`},
		"GET /api/hello":                {200, ""},
		"GET /v1/models":                {200, `"object":"list"`},
		"GET /api/v1/models":            {200, `"object":"list"`},
		"GET /v1/models/plain:latest":   {200, `"id":"plain:latest"`},
		"GET /v1/none":                  {404, `"error":{"message"`},
		"POST /api/v1/chat/completions": {400, `"error":{"message"`},
	} {
		method, path, _ := strings.Cut(request, " ")
		w := askWith(h, method, path, `{"model":"plain:latest"}`, nil, nobody)
		text, ok := w.Body.String(), false
		if strings.HasPrefix(want.text, `"error"`) || want.status < 400 || method == http.MethodHead {
			ok = strings.Contains(text, want.text)
		} else {
			failure, err := ollamacheck.Failure(w.Body.Bytes())
			ok = err == nil && strings.Contains(failure, want.text)
		}
		if w.Code != want.status || !ok {
			t.Errorf("%s: %d %s", request, w.Code, text)
		}
	}
}

// TestOllamaIsOff: without the option its paths are the next handler's. If that has no answer either,
// Ollama's clients read that the option is missing.
func TestOllamaIsOff(t *testing.T) {
	h := started(t)
	if w := askWith(h, http.MethodGet, "/", "", nil, nobody); w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), `"code":"unknown_url"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	for _, path := range []string{"/api/tags", "/api/chat"} {
		w := askWith(h, http.MethodGet, path, "", nil, nobody)
		if failure, err := ollamacheck.Failure(w.Body.Bytes()); err != nil || w.Code != http.StatusNotFound || !strings.Contains(failure, "with the option ollama") {
			t.Errorf("%s: %d %s (%v)", path, w.Code, w.Body, err)
		}
		mine := func(w http.ResponseWriter, _ *http.Request) error { _, err := io.WriteString(w, "mine"); return err }
		if w := askWith(h, http.MethodGet, path, "", nil, mine); w.Body.String() != "mine" {
			t.Errorf("%s of another handler: %d %s", path, w.Code, w.Body)
		}
	}
}

// TestOllamaRefusals: what refuses a request before it is read does so in Ollama's form.
func TestOllamaRefusals(t *testing.T) {
	keyed := ollamaHandler(t)
	keyed.APIKeys, keyed.CORS = []APIKey{{Key: "secret"}}, []string{"app://obsidian.md"}
	keyed = running(t, keyed)
	page := http.Header{"Origin": {"https://evil.example"}, "Access-Control-Request-Method": {"POST"}}
	for name, c := range map[string]struct {
		method, path string
		header       http.Header
		status       int
	}{
		"no key":            {"GET", "/api/tags", nil, 401},
		"a wrong key":       {"POST", "/api/chat", http.Header{"Authorization": {"Bearer x"}}, 401},
		"the key":           {"GET", "/api/ps", http.Header{"Authorization": {"Bearer secret"}}, 200},
		"the version":       {"GET", "/api/version", nil, 200},
		"the begin":         {"GET", "/", nil, 200},
		"another's page":    {"OPTIONS", "/api/chat", page, 403},
		"a page":            {"OPTIONS", "/api/chat", http.Header{"Origin": {"app://obsidian.md"}, "Access-Control-Request-Method": {"POST"}}, 204},
		"a forged form":     {"POST", "/api/chat", http.Header{"Origin": {"https://evil.example"}, "Sec-Fetch-Site": {"cross-site"}, "Content-Type": {"text/plain"}}, 403},
		"curl's media type": {"POST", "/api/pull", http.Header{"Authorization": {"Bearer secret"}, "Content-Type": {"application/x-www-form-urlencoded"}}, 200},
		"early data":        {"POST", "/api/chat", http.Header{"Authorization": {"Bearer secret"}, "Early-Data": {"1"}}, 425},
	} {
		w := askWith(keyed, c.method, c.path, `{"name":"plain"}`, c.header, nobody)
		_, err := ollamacheck.Failure(w.Body.Bytes())
		if w.Code != c.status || (err == nil) != (c.status >= 400) {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}

// TestOllamaHosts: containers and machines of the network come in by names that the operator lists.
func TestOllamaHosts(t *testing.T) {
	h := ollamaHandler(t)
	h.Hosts = []string{"host.docker.internal", "ollama", "*.local"}
	h = running(t, h)
	for host, status := range map[string]int{
		"localhost:11434": 200, "127.0.0.1:11434": 200, "host.docker.internal:11434": 200, "ollama": 200, "Nas.local:11434": 200,
		"evil.example": 403, "host.docker.internal.evil.example": 403, "local": 403, "a.b.local": 403,
	} {
		w := httptest.NewRecorder()
		r, _ := prepared(http.MethodGet, "/api/tags")
		r.Host = host
		if err := h.ServeHTTP(w, r, nil); err != nil {
			t.Error(host, err)
		}
		if _, err := ollamacheck.Failure(w.Body.Bytes()); w.Code != status || status == 403 && err != nil {
			t.Errorf("%s: %d %s", host, w.Code, w.Body)
		}
	}
}
