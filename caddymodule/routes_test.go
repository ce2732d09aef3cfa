package caddymodule

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-codex/caddy-codex/internal/test/fakeserver"
)

// errNext is returned by the next handler.
var errNext = errors.New("the next handler was asked")

// ask sends a request to a handler and returns the error of the next handler.
func ask(h *Handler, method, target, key string, body io.Reader) (*httptest.ResponseRecorder, error) {
	w := httptest.NewRecorder()
	r, _ := prepared(method, target)
	if body != nil {
		r.Body = io.NopCloser(body)
	}
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	err := h.ServeHTTP(w, r, caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error { return errNext }))
	return w, err
}

// started returns a handler with a running fake app-server.
func started(t *testing.T, keys ...APIKey) *Handler {
	t.Helper()
	h := fakeHandler(t, t.Name())
	h.APIKeys = keys
	c := provision(t, h)
	c.start(t)
	pid(t, sole(t, c.handlers[0])) // it is ready
	return c.handlers[0]
}

// Each path accepts its methods and names them for any other.
func TestMethods(t *testing.T) {
	h := started(t)
	all := []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "get", "ODD"}
	for path, test := range map[string]struct {
		allow  string
		status int // for the methods that are allowed
	}{
		"/v1/chat/completions":             {"POST", 400}, // the body is missing
		"/v1/responses":                    {"POST", 400},
		"/v1/responses/input_tokens":       {"POST", 400},
		"/v1/responses/compact":            {"POST", 404},
		"/v1/responses/resp_x":             {"GET, HEAD, DELETE", 404},
		"/v1/responses/*":                  {"GET, HEAD, DELETE", 404}, // not the pattern
		"/v1/responses/resp_x/input_items": {"GET, HEAD", 404},
		"/v1/responses/resp_x/cancel":      {"POST", 404},
		"/v1/messages":                     {"POST", 400},
		"/v1/messages/count_tokens":        {"POST", 400},
		"/api/hello":                       {"GET, HEAD", 200},
		"/v1/models":                       {"GET, HEAD", 200},
		"/v1/models/plain":                 {"GET, HEAD", 200},
		"/v1/usage":                        {"GET, HEAD", 200},
		"/v1/usage/raw":                    {"GET, HEAD", 200},
		"/healthz":                         {"GET, HEAD", 200},
		"/readyz":                          {"GET, HEAD", 200},
	} {
		allowed := make(map[string]bool)
		for method := range strings.SplitSeq(test.allow, ", ") {
			allowed[method] = true
		}
		for _, method := range all {
			w, err := ask(h, method, path, "", nil)
			if err != nil {
				t.Errorf("%s %s: %v", method, path, err)
				continue
			}
			want, allow := test.status, ""
			if !allowed[method] {
				want, allow = http.StatusMethodNotAllowed, test.allow
			}
			if w.Code != want || w.Header().Get("Allow") != allow {
				t.Errorf("%s %s: %d with Allow %q, want %d with %q", method, path, w.Code, w.Header().Get("Allow"), want, allow)
			}
			if w.Header().Get(requestIDHeader) == "" {
				t.Errorf("%s %s has no id", method, path)
			}
		}
	}
}

// An unknown path below /v1/ is answered in the format of the API.
func TestUnknownPaths(t *testing.T) {
	h := started(t)
	for _, path := range []string{"/v1/", "/v1/no-such-thing", "/v1/Models", "/v1/../healthz", "/v1/v1/", "/v1/embeddings", "/v1/chat", "/v1/completions"} {
		for _, method := range []string{"GET", "POST", "OPTIONS"} {
			w, err := ask(h, method, path, "", nil)
			var body struct{ Error struct{ Code string } }
			if err != nil || w.Code != http.StatusNotFound || json.Unmarshal(w.Body.Bytes(), &body) != nil || body.Error.Code != "unknown_url" {
				t.Errorf("%s %s: %v, %d %s", method, path, err, w.Code, w.Body)
			}
		}
	}
}

// All other paths are passed to the next handler, unchanged and unchecked.
func TestOtherPaths(t *testing.T) {
	h := started(t, APIKey{Key: "k"})
	for _, path := range []string{"/", "/v1", "/v1x/models", "/v2/models", "/V1/models", "//v1/models", "/healthz/", "/Healthz", "/api/v1/models", "/index.html"} {
		w, err := ask(h, http.MethodGet, path, "", nil)
		if !errors.Is(err, errNext) {
			t.Errorf("%s: %v, %d %s", path, err, w.Code, w.Body)
		}
		if len(w.Header()) != 0 {
			t.Errorf("%s: headers were set: %v", path, w.Header())
		}
	}
}

// A model's id may contain slashes, escaped or not.
func TestModelIDs(t *testing.T) {
	h := started(t)
	for path, want := range map[string]string{
		"/v1/models/plain":                    "plain",
		"/v1/models/vendor/model%20one":       fakeserver.SlashedModel,
		"/v1/models/vendor%2Fmodel%20one":     fakeserver.SlashedModel,
		"/v1/models/vendor%2fmodel%20one?a=b": fakeserver.SlashedModel,
		"/v1/models/vendor/":                  "",
		"/v1/models/vendor%252Fmodel":         "",
		"/v1/models//plain":                   "",
		"/v1/models/PLAIN":                    "",
	} {
		w, err := ask(h, http.MethodGet, path, "", nil)
		var body struct {
			ID    string
			Error struct{ Code string }
		}
		if err != nil || json.Unmarshal(w.Body.Bytes(), &body) != nil {
			t.Errorf("%s: %v, %s", path, err, w.Body)
			continue
		}
		if want == "" && (w.Code != http.StatusNotFound || body.Error.Code != "model_not_found") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
		if want != "" && (w.Code != http.StatusOK || body.ID != want) {
			t.Errorf("%s: %d %s, want the model %q", path, w.Code, w.Body, want)
		}
	}
}

// unreadable is a body that must not be read.
type unreadable struct{ t *testing.T }

func (u unreadable) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, io.EOF
}

// The key is checked before anything else, but not on the paths of probes.
func TestKeysOfRoutes(t *testing.T) {
	h := started(t, APIKey{Key: "right"})
	for _, test := range []struct {
		method, path string
		with         int // the status with the right key
	}{
		{"GET", "/v1/models", 200},
		{"HEAD", "/v1/models", 200},
		{"GET", "/v1/models/plain", 200},
		{"GET", "/v1/models/none", 404},
		{"DELETE", "/v1/chat/completions", 405},
		{"GET", "/v1/no-such-thing", 404},
	} {
		for key, want := range map[string]int{"": 401, "wrong": 401, "right": test.with} {
			w, err := ask(h, test.method, test.path, key, unreadable{t})
			if err != nil || w.Code != want {
				t.Errorf("%s %s with the key %q: %v, %d, want %d", test.method, test.path, key, err, w.Code, want)
			}
		}
	}
	if w, err := ask(h, "POST", "/v1/chat/completions", "wrong", unreadable{t}); err != nil || w.Code != 401 {
		t.Errorf("a chat with a wrong key: %v, %d", err, w.Code)
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if w, err := ask(h, "GET", path, "", nil); err != nil || w.Code != 200 {
			t.Errorf("%s: %v, %d %s", path, err, w.Code, w.Body)
		}
	}
}

// TestEarlyData: what changes something is not taken from early data, which others can repeat.
func TestEarlyData(t *testing.T) {
	rt := route{noAPIKey: true, noBody: true, serve: func(_ *Handler, w http.ResponseWriter, _ *http.Request, _ []string) {
		w.WriteHeader(http.StatusNoContent)
	}}
	for _, c := range []struct {
		method  string
		tls     *tls.ConnectionState
		header  string // Early-Data, of a proxy
		refused bool
	}{
		{http.MethodPost, &tls.ConnectionState{}, "", true},
		{http.MethodDelete, &tls.ConnectionState{}, "", true},
		{http.MethodPost, &tls.ConnectionState{HandshakeComplete: true}, "1", true},
		{http.MethodPost, nil, "1", true},
		{http.MethodPost, &tls.ConnectionState{HandshakeComplete: true}, "", false},
		{http.MethodPost, nil, "", false},
		{http.MethodGet, &tls.ConnectionState{}, "1", false},
		{http.MethodHead, &tls.ConnectionState{}, "1", false},
	} {
		r := httptest.NewRequest(c.method, "/v1/chat/completions", nil)
		if r.TLS = c.tls; c.header != "" {
			r.Header.Set("Early-Data", c.header)
		}
		w := httptest.NewRecorder()
		(&Handler{}).serve(rt, w, r, new(requestContext))
		if want := map[bool]int{true: http.StatusTooEarly, false: http.StatusNoContent}[c.refused]; w.Code != want {
			t.Errorf("%s, TLS %+v, Early-Data %q: %d %s", c.method, c.tls, c.header, w.Code, w.Body)
		}
	}
}
