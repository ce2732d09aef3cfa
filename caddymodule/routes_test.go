package caddymodule

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/google/uuid"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/api"
	"github.com/caddy-codex/caddy-codex/internal/gateway"
	"github.com/caddy-codex/caddy-codex/internal/test/echoapi"
	"github.com/caddy-codex/caddy-codex/internal/test/fakeserver"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/internal/usage"
)

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

// started returns a handler with these keys and a running fake app-server.
func started(t *testing.T, keys ...APIKey) *Handler {
	t.Helper()
	h := fakeHandler(t, t.Name())
	h.APIKeys = keys
	return running(t, h)
}

// running returns the provisioned handler of a configuration, once its app-server is ready.
func running(t *testing.T, h *Handler) *Handler {
	t.Helper()
	c := provision(t, h)
	c.start(t)
	pid(t, sole(t, c.handlers[0]))
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
		"/v1/responses/compact":            {"POST", 400},
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

// allOn turns on all APIs of a configuration, and returns it.
func allOn(t testing.TB, h *Handler) *Handler {
	t.Helper()
	for _, a := range gateway.APIs {
		if a.Option != "" {
			must.OK(t, json.Unmarshal(fmt.Appendf(nil, "{%q:true}", a.Option), h))
		}
	}
	return h
}

// TestAddedAPI: without its option, an API outside /v1/ takes no path from other handlers.
func TestAddedAPI(t *testing.T) {
	defer func(apis []*api.API, table map[string]route) { gateway.APIs, routes = apis, table }(gateway.APIs, routes)
	gateway.APIs = append(slices.Clone(gateway.APIs), &echoapi.API)
	routes = withRoutes(maps.Clone(routes))
	on, off := running(t, allOn(t, fakeHandler(t, t.Name()))), started(t)
	for request, want := range map[string]string{"GET /echo/models": "plain", "POST /echo": "The first line must name a model."} {
		method, path, _ := strings.Cut(request, " ")
		if w, err := ask(on, method, path, "", nil); err != nil || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %v, %d %s", request, err, w.Code, w.Body)
		}
		if w, err := ask(off, method, path, "", nil); !errors.Is(err, errNext) {
			t.Errorf("%s without the option: %v, %d %s", request, err, w.Code, w.Body)
		}
	}
}

// TestMisspeltOff: no wrong base URL leads around the option of an API.
func TestMisspeltOff(t *testing.T) {
	h := started(t)
	for _, path := range []string{"/images/generations", "/api/v1/images/generations", "/v1/images/generations", "/v1/v1/images/edits"} {
		if w := askWith(h, http.MethodPost, path, "{}", nil, nobody); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
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

// A wrong base URL is no way around the key; and a key may come in the headers of other APIs.
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

// timedResponse counts the deadlines of its writes.
type timedResponse struct {
	*httptest.ResponseRecorder
	deadlines int
}

func (t *timedResponse) SetWriteDeadline(time.Time) error {
	t.deadlines++
	return nil
}

// Caddy sets no deadlines for the writes of a stream, unless its operator wants stricter ones.
func TestOwnDeadlines(t *testing.T) {
	for name, test := range map[string]struct {
		deadline caddyhttp.IdleDeadline
		want     int
	}{
		"default":        {caddyhttp.IdleDeadline{Timeout: time.Minute}, 0},
		"short":          {caddyhttp.IdleDeadline{Timeout: 5 * time.Second}, 2},
		"rate":           {caddyhttp.IdleDeadline{Timeout: time.Minute, MinRate: 100}, 2},
		"whole response": {caddyhttp.IdleDeadline{Timeout: time.Minute, HardDeadline: time.Now().Add(time.Hour)}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			response := &timedResponse{ResponseRecorder: httptest.NewRecorder()}
			w := &caddyhttp.IdleTimeoutWriter{
				ResponseWriterWrapper: &caddyhttp.ResponseWriterWrapper{ResponseWriter: response},
				Ctrl:                  http.NewResponseController(response), Deadline: test.deadline, Logger: zap.NewNop(),
			}
			r := httptest.NewRequest(http.MethodPost, "/", nil)
			outer := struct{ http.ResponseWriter }{w}
			if got := withoutWriteDeadlines(outer, r); got != http.ResponseWriter(outer) {
				t.Errorf("without Caddy's writer the answer is written to %T", got)
			}
			r = r.WithContext(caddyhttp.ContextWithIdleTimeouts(r.Context(), nil, w))
			if got := withoutWriteDeadlines(outer, r); got != http.ResponseWriter(outer) {
				t.Errorf("a writer around Caddy's is left out: %T", got)
			}
			got := withoutWriteDeadlines(w, r)
			for range 2 {
				if _, err := got.Write([]byte("x")); err != nil {
					t.Fatal(err)
				}
			}
			if response.deadlines != test.want {
				t.Errorf("%d deadlines, want %d", response.deadlines, test.want)
			}
		})
	}
}

func TestSetRequestID(t *testing.T) {
	const own = "Az09._:/+=-"
	for name, test := range map[string]struct {
		sent string
		kept bool
	}{
		"every character allowed": {own, true},
		"one character":           {"x", true},
		"as long as allowed":      {strings.Repeat("x", 128), true},
		"too long":                {strings.Repeat("x", 129), false},
		"none":                    {"", false},
		"space":                   {"a b", false},
		"line break":              {"a\n", false},
		"header injection":        {"a\r\nX-Evil: 1", false},
		"quote":                   {`a"b`, false},
		"markup":                  {"<b>", false},
		"not ASCII":               {"ä", false},
		"placeholder":             {"{env.HOME}", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			r, repl := prepared(http.MethodGet, "/healthz")
			r.Header.Set(requestIDHeader, test.sent)
			setRequestID(w, r, new([2]string))
			uuid, _ := repl.GetString("http.request.uuid")
			want := map[bool]string{true: test.sent, false: uuid}[test.kept]
			if got := w.Header().Values(requestIDHeader); len(got) != 1 || got[0] != want || want == "" {
				t.Errorf("the answer has %q, want %q", got, want)
			}
			// What logs of the request say is the same id.
			if got := r.Header.Values(requestIDHeader); len(got) != 1 || got[0] != want {
				t.Errorf("the request has %q, want %q", got, want)
			}
		})
	}
}

// TestRequestIDOfLog: a request has one uuid, that of its id: also in the access log if
// there is one, and if another handler has asked for it before. No other request has it.
func TestRequestIDOfLog(t *testing.T) {
	seen := make(map[string]bool)
	for name, test := range map[string]struct {
		logs  *caddyhttp.ServerLogConfig
		asked bool // before
	}{
		"no log":       {nil, false},
		"access log":   {new(caddyhttp.ServerLogConfig), false},
		"asked before": {nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			repl := caddy.NewReplacer()
			r := httptest.NewRequest(http.MethodGet, "/healthz", nil)
			r = caddyhttp.PrepareRequest(r, repl, nil, &caddyhttp.Server{Logs: test.logs})
			before := ""
			if test.asked {
				before, _ = repl.GetString("http.request.uuid")
			}
			w := httptest.NewRecorder()
			setRequestID(w, r, new([2]string))
			id := w.Header().Get(requestIDHeader)
			after, _ := repl.GetString("http.request.uuid")
			if _, err := uuid.Parse(id); err != nil || after != id || test.asked && before != id || seen[id] {
				t.Errorf("the id is %q, the uuid %q, and before %q: %v", id, after, before, err)
			}
			seen[id] = true
			if caddyhttp.GetVar(r.Context(), "uuid") == nil {
				t.Error("Caddy does not know the uuid for its log")
			}
		})
	}
}

// FuzzRoute: a path leads to the one route whose pattern it is, and the parts of the path are those
// that stand for * there. Any other path of the API leads to a route as well, without a second try.
func FuzzRoute(f *testing.F) {
	for _, path := range []string{
		"/v1/responses/resp_1/input_items", "/v1/responses/input_tokens", "/v1/responses//cancel", "/v1/models/a/b", "/v1/conversations/c/items/i",
		"/v1//chat/completions/", "/v1/v1/models", "/v1/", "/v1/openai/deployments/x/chat/completions", "/healthz", "/v1/responses/*",
	} {
		f.Add(path)
	}
	patterns := map[string]*regexp.Regexp{"/v1/models/*": regexp.MustCompile(`(?s)^/v1/models/(.+)$`)}
	for pattern := range routes {
		patterns[pattern] = regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, "([^/]+)") + "$")
	}
	f.Fuzz(func(t *testing.T, path string) {
		wanted := map[string][]string{}
		for pattern, form := range patterns {
			if match := form.FindStringSubmatch(path); match != nil {
				wanted[pattern] = match[1:]
			}
		}
		if args := wanted[path]; args != nil { // a whole path comes before a pattern
			wanted = map[string][]string{path: args}
		}
		h := allOn(t, new(Handler))
		found, ok := h.exactRouteOf(path)
		if len(wanted) > 1 || ok != (len(wanted) == 1) {
			t.Fatalf("%q is %t, of %v", path, ok, wanted)
		}
		for pattern, args := range wanted {
			want := routes[pattern]
			if pattern == "/v1/models/*" {
				want = modelRoute
			}
			if found.name != want.name || !slices.Equal(found.methods, want.methods) || !slices.Equal(found.args, args) {
				t.Fatalf("%q leads to %+v, with %q", path, found, args)
			}
		}
		if meant, ok := h.misspeltRouteOf(path); ok && (meant.serve == nil || slices.Contains(meant.args, "")) {
			t.Fatalf("%q leads to %+v", path, meant)
		}
		if meant, ok := h.routeOf(path); ok && meant.serve == nil || strings.HasPrefix(path, "/v1/") && !ok {
			t.Fatalf("%q leads nowhere", path)
		}
	})
}

// TestRefusedUnread: a request without a key is refused before its body is read. If the body
// does not arrive, this delays neither the answer nor the end of the connection.
func TestRefusedUnread(t *testing.T) {
	h := started(t, APIKey{Key: "sk-1"})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		plain, _ := prepared(r.Method, r.URL.Path)
		plain.Body, plain.ContentLength = r.Body, r.ContentLength
		_ = h.ServeHTTP(w, plain, nil)
	}))
	defer server.Close()
	for name, test := range map[string]struct{ head, body string }{
		"a part of it":    {"Content-Length: 1000\r\n", "{"},
		"asked for first": {"Content-Length: 1000\r\nExpect: 100-continue\r\n", ""},
	} {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		must.OK(t, err)
		defer conn.Close()
		must.OK(t, conn.SetDeadline(time.Now().Add(patience)))
		fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n%s\r\n%s", test.head, test.body)
		all, err := io.ReadAll(bufio.NewReader(conn))
		if err != nil || !strings.HasPrefix(string(all), "HTTP/1.1 401 ") || !strings.Contains(string(all), "Connection: close") {
			t.Errorf("%s: %v %s", name, err, all)
		}
	}
}

// TestUnusedBody: a body that a request has no use for does not delay the answer, nor the end of
// the connection, if it does not arrive. If it arrives it does not matter.
func TestUnusedBody(t *testing.T) {
	h := started(t)
	h.cors = cors{"https://app.example"}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = h.ServeHTTP(w, caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, nil), nil)
	}))
	defer server.Close()
	var asking sync.WaitGroup
	defer asking.Wait()
	const preflight = "Origin: https://app.example\r\nAccess-Control-Request-Method: POST\r\n"
	const handshake = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
	for request, test := range map[string]struct {
		header      string
		whole, part int // the status if the body arrives, and if it does not
	}{
		"GET /healthz":                                     {"", 200, 408},
		"GET /v1/models":                                   {"", 200, 408},
		"HEAD /v1/models":                                  {"", 200, 408},
		"GET /v1/usage":                                    {"", 200, 408},
		"GET /v1/responses/resp_x":                         {"", 404, 408},
		"GET /v1/responses/resp_x?stream=true":             {"", 404, 408},
		"DELETE /v1/responses/resp_x":                      {"", 404, 408},
		"POST /v1/responses/resp_x/cancel":                 {"", 404, 408},
		"DELETE /v1/conversations/conv_x/items/item_x":     {"", 404, 408},
		"OPTIONS /v1/responses":                            {preflight, 204, 204},
		"GET /v1/responses":                                {handshake, 101, 408},
		"DELETE /v1/conversations/conv_x/items/item_x?x=y": {"Expect: 100-continue\r\n", 404, 408},
	} {
		asking.Go(func() { sendUnused(t, server.Listener.Addr(), request, test.header, 2, test.whole) })
		asking.Go(func() { sendUnused(t, server.Listener.Addr(), request, test.header, 1000, test.part) })
	}
}

// sendUnused sends a request with two bytes of a body of a length, and checks the status of the
// answer. If more of the body is missing the connection has to end.
func sendUnused(t *testing.T, addr net.Addr, request, header string, length, want int) {
	conn, err := net.Dial("tcp", addr.String())
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Error(err)
	}
	fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n%s\r\n{}", request, length, header)
	answers := bufio.NewReader(conn)
	response, err := http.ReadResponse(answers, nil)
	if err == nil && response.StatusCode == http.StatusContinue {
		response, err = http.ReadResponse(answers, nil)
	}
	if err != nil || response.StatusCode != want {
		t.Errorf("%s with %d bytes: %v %v", request, length, response, err)
		return
	}
	if length == 2 {
		return // the connection may go on
	}
	if rest, err := io.ReadAll(answers); err != nil {
		t.Errorf("%s: the connection goes on: %v after %q", request, err, rest)
	}
}

// BenchmarkRequest measures what this package does for a request with a turn, from the route
// to the log line, beside what the gateway does:
//
//	go test -run '^$' -bench Request -benchmem ./caddymodule
func BenchmarkRequest(b *testing.B) {
	h := &Handler{hosts: new(hosts)}
	turns := observer{turnLogger: zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(io.Discard), zap.InfoLevel))}
	route, _ := h.routeOf("/v1/chat/completions")
	route.serve = func(h *Handler, w http.ResponseWriter, r *http.Request, _ []string) {
		record := [1]usage.Record{{
			Time: time.Now(), Duration: 1234567 * time.Nanosecond, FirstOutput: 1234567 * time.Nanosecond, Route: "chat",
			RequestID: r.Header.Get(requestIDHeader), User: h.accountOf(r), Model: "gpt-5", CodexModel: "gpt-5", Mode: turn.ModeJSON, Stream: true,
			Status: http.StatusOK, Usage: codexrpc.Usage{InputTokens: 10, OutputTokens: 5, TotalTokens: 15}, Finish: turn.FinishStop, Thread: "new",
		}}
		defer turns.AnswerBegan(true)()
		_ = withoutWriteDeadlines(w, r)
		turns.TurnsEnded(r.Context(), record[:])
	}
	server := &caddyhttp.Server{Listen: []string{":8080"}}
	bare := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", nil)
	bare.Host = "127.0.0.1:8080"
	bare.Header.Set("Content-Type", "application/json")
	b.ReportAllocs()
	for b.Loop() {
		w := httptest.NewRecorder()
		bare.Header.Del(requestIDHeader)
		r := caddyhttp.PrepareRequest(bare, caddy.NewReplacer(), w, server)
		reqCtx := new(requestContext)
		setRequestID(w, r, &reqCtx.ids)
		route.prepare(w, r, reqCtx)
		h.serve(route, w, r, reqCtx)
	}
}
