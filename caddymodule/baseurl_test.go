package caddymodule

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// askWith asks a handler in front of another one.
func askWith(h *Handler, method, path, body string, header http.Header, next caddyhttp.HandlerFunc) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r, _ := prepared(method, path)
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	for name, values := range header {
		r.Header[name] = values
	}
	if err := h.ServeHTTP(w, r, next); err != nil {
		w.Code = 999
	}
	return w
}

// nobody is Caddy's last handler.
func nobody(_ http.ResponseWriter, r *http.Request) error {
	caddyhttp.SetVar(r.Context(), unhandled, true)
	return nil
}

// A client whose base URL is wrong is served where it is clear what it wants.
func TestWrongBaseURL(t *testing.T) {
	h := started(t)
	for path, want := range map[string]string{
		"/models":                       "GET",
		"/models/":                      "GET",
		"//v1/models":                   "GET",
		"/v1//models":                   "GET",
		"/v1/models/":                   "GET",
		"/v1/v1/models":                 "GET",
		"/openai/v1/models":             "GET",
		"/api/v1/models":                "GET",
		"/usage":                        "GET",
		"/chat/completions":             "POST",
		"/v1/chat/completions/":         "POST",
		"/v1/v1/chat/completions":       "POST",
		"/openai/v1//chat//completions": "POST",
		"/openai/deployments/plain/chat/completions?api-version=2024-10-21": "POST",
		"/responses":               "POST",
		"/responses/resp_1/cancel": "POST",
		"/models/plain":            "GET",
		"/conversations":           "POST",
		"/v1/v1/conversations/x":   "GET",
		"/v1/responses/":           "POST",
	} {
		w := askWith(h, want, path, "no JSON", nil, nobody)
		var body struct {
			Object string
			Error  struct{ Code string }
		}
		if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || body.Object == "" && body.Error.Code != "invalid_json" && body.Error.Code != "response_not_found" && body.Error.Code != "conversation_not_found" {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	for _, path := range []string{"/", "/v1", "/index.html", "/v2/models", "/modelsx", "/openai", "/deployments/x/chat/completion"} {
		w := askWith(h, http.MethodGet, path, "", nil, nobody)
		if w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "http://localhost/v1") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

// TestUnknownEncoding checks the error about an encoding of bodies that is not read.
func TestUnknownEncoding(t *testing.T) {
	w := askWith(started(t), http.MethodPost, "/v1/chat/completions", "x", http.Header{"Content-Encoding": {"br"}}, nobody)
	if w.Code != http.StatusUnsupportedMediaType || !strings.Contains(w.Body.String(), "gzip or zstd") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// What another handler answers is its own, with a body or without, and so are its errors.
func TestOtherHandlers(t *testing.T) {
	h := started(t, APIKey{Key: "k"})
	for name, next := range map[string]caddyhttp.HandlerFunc{
		"a body":   func(w http.ResponseWriter, _ *http.Request) error { _, err := io.WriteString(w, "mine"); return err },
		"a status": func(w http.ResponseWriter, _ *http.Request) error { w.WriteHeader(http.StatusNoContent); return nil },
		"a flush":  func(w http.ResponseWriter, _ *http.Request) error { return http.NewResponseController(w).Flush() },
		"a hijacker": func(w http.ResponseWriter, _ *http.Request) error {
			_, _, _ = http.NewResponseController(w).Hijack()
			return nil
		},
	} {
		for _, path := range []string{"/models", "/chat/completions", "/"} {
			w := askWith(h, http.MethodPost, path, "", nil, next)
			if w.Code >= http.StatusBadRequest || w.Body.Len() > len("mine") {
				t.Errorf("%s of %s: %d %s", name, path, w.Code, w.Body)
			}
		}
	}
	again := func(w http.ResponseWriter, r *http.Request) error {
		return h.ServeHTTP(w, r, caddyhttp.HandlerFunc(nobody))
	}
	once, twice := askWith(h, http.MethodGet, "/", "", nil, nobody), askWith(h, http.MethodGet, "/", "", nil, again)
	if once.Body.String() != twice.Body.String() {
		t.Errorf("two handlers answer %s, one %s", twice.Body, once.Body)
	}
	if w := askWith(h, http.MethodGet, "/models", "", nil, func(http.ResponseWriter, *http.Request) error { return errNext }); w.Code != 999 {
		t.Errorf("an error of another handler became %d", w.Code)
	}
}

// A wrong base URL is no way around the key; and a key may come in the headers of other
// APIs.
func TestKeyHeaders(t *testing.T) {
	h := started(t, APIKey{Key: "k"})
	for _, c := range []struct {
		name, value string
		want        int
	}{
		{"Authorization", "Bearer k", 200},
		{"Authorization", "bearer  k ", 200},
		{"Api-Key", "k", 200},
		{"X-Api-Key", "k", 200},
		{"Authorization", "Basic k", 401},
		{"Authorization", "k", 401},
		{"Api-Key", "x", 401},
		{"X-Api-Key", "", 401},
		{"X-Other", "k", 401},
	} {
		for _, path := range []string{"/v1/models", "/models", "/v1/v1/models"} {
			if w := askWith(h, http.MethodGet, path, "", http.Header{c.name: {c.value}}, nobody); w.Code != c.want {
				t.Errorf("%s: %s %s: %d, want %d", path, c.name, c.value, w.Code, c.want)
			}
		}
	}
	both := http.Header{"Authorization": {"Bearer wrong"}, "Api-Key": {"k"}}
	if w := askWith(h, http.MethodGet, "/v1/models", "", both, nobody); w.Code != http.StatusUnauthorized {
		t.Errorf("a wrong bearer token beside a right key: %d", w.Code)
	}
}
