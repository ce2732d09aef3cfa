package caddymodule

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	zaptest "go.uber.org/zap/zaptest/observer"

	"github.com/caddy-codex/caddy-codex/internal/quota"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// guard provisions a codex_keys.
func guard(t *testing.T, keys Keys) *KeysHandler {
	t.Helper()
	ctx, _ := newContext(t)
	loaded, err := ctx.LoadModuleByID("http.handlers.codex_keys", encode(t, KeysHandler{Keys: keys}))
	must.OK(t, err)
	return loaded.(*KeysHandler)
}

// TestKeysHandler checks who passes, as which user, and that no key is passed on, in whichever header.
func TestKeysHandler(t *testing.T) {
	g := guard(t, Keys{
		APIKeys:     []APIKey{{Key: "static", User: "sam"}},
		APIKeysFile: writeKeys(t, map[string]string{"ann": "user ann", "old": "expires 2020-01-31", "few": "requests 1 day", "none": "tokens 1 day"}),
	})
	request, err := localLimits.Begin(&g.keyFile.Set().Find("none").Key)
	must.OK(t, err)
	grants, err := request.Acquire(1)
	must.OK(t, err)
	must.OK(t, request.Reserve(t.Context(), grants, 0))
	grants[0].Close(1)
	for _, c := range []struct {
		name, target string
		header       http.Header
		status       int
		user         string
	}{
		{"a key of the file", "/", http.Header{"Authorization": {"Bearer ann"}}, 200, "ann"},
		{"in lower case", "/", http.Header{"Authorization": {"bearer ann"}}, 200, "ann"},
		{"a key of the configuration", "/", http.Header{"X-Api-Key": {"static"}}, 200, "sam"},
		{"in every header", "/", http.Header{"Authorization": {"Bearer ann", "Bearer static"}, "Api-Key": {"ann"}, "X-Api-Key": {"static"}}, 200, "ann"},
		{"none", "/", nil, 401, ""},
		{"wrong", "/", http.Header{"Authorization": {"Bearer wrong", "Bearer ann"}}, 401, ""},
		{"in the query", "/?api_key=ann&key=ann", nil, 401, ""},
		{"huge", "/", http.Header{"Api-Key": {strings.Repeat("ann", 1<<18)}}, 401, ""},
		{"expired", "/", http.Header{"Api-Key": {"old"}}, 401, ""},
		{"the only request", "/", http.Header{"Api-Key": {"few"}}, 200, "id-few"},
		{"without tokens", "/", http.Header{"Api-Key": {"none"}}, 429, ""},
		{"one too many", "/", http.Header{"Api-Key": {"few"}}, 429, ""},
	} {
		r, repl := prepared(http.MethodPost, c.target)
		for name, values := range c.header {
			r.Header[name] = values
		}
		w := httptest.NewRecorder()
		passed := false
		must.OK(t, g.ServeHTTP(w, r, caddyhttp.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) error {
			passed = true
			if len(r.Header) > 0 {
				t.Errorf("%s: passed on with %v", c.name, r.Header)
			}
			return nil
		})))
		user, _ := repl.GetString(userVariable)
		if passed != (c.status == 200) || w.Code != c.status || user != c.user && passed {
			t.Errorf("%s: %d, user %q, passed %t: %s", c.name, w.Code, user, passed, w.Body)
		}
		if !passed && !strings.HasPrefix(w.Body.String(), `{"error":{"message"`) || w.Code == 401 && w.Header().Get("WWW-Authenticate") != "Bearer" || w.Code == 429 && w.Header().Get("X-Should-Retry") != "false" {
			t.Errorf("%s: %v %s", c.name, w.Header(), w.Body)
		}
	}
}

// TestKeysHandlerEnds checks that a place of max_concurrent is free again after each end of a request, also a panic.
func TestKeysHandlerEnds(t *testing.T) {
	g := guard(t, Keys{APIKeysFile: writeKeys(t, map[string]string{"one": "max_concurrent 1"})})
	for _, next := range []caddyhttp.HandlerFunc{
		func(http.ResponseWriter, *http.Request) error { panic(http.ErrAbortHandler) },
		func(http.ResponseWriter, *http.Request) error { return caddyhttp.Error(http.StatusBadGateway, nil) },
		func(w http.ResponseWriter, _ *http.Request) error { w.WriteHeader(http.StatusTeapot); return nil },
	} {
		r, _ := prepared(http.MethodPost, "/")
		r.Header.Set("Api-Key", "one")
		w := httptest.NewRecorder()
		passed := false
		func() {
			defer func() { _ = recover() }()
			_ = g.ServeHTTP(w, r, caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
				passed = true
				return next(w, r)
			}))
		}()
		if !passed {
			t.Errorf("refused: %d %s", w.Code, w.Body)
		}
	}
}

// TestKeysHandlerCounts checks where requests count: where those of a codex with the same file do, or else in a store
// that all nodes share.
func TestKeysHandlerCounts(t *testing.T) {
	shared, own := quota.NewLimits(quota.NewLedger(time.Now), 0, false), &Handler{Keys: Keys{APIKeysFile: "own"}, limits: localLimits}
	app := &App{handlers: []*Handler{own, {Keys: Keys{APIKeysFile: "shared"}, limits: shared}, {limits: localLimits}}}
	for file, want := range map[string]*quota.Limits{"own": localLimits, "shared": shared, "another": shared} {
		if app.limitsOf(&Keys{APIKeysFile: file}) != want {
			t.Errorf("%s: they count elsewhere", file)
		}
	}
	if app.handlers = app.handlers[:1]; app.limitsOf(&Keys{APIKeysFile: "another"}) != localLimits {
		t.Error("no store is shared, but they count in one")
	}
}

// TestKeysHandlerLog checks that a guessed key is a line of the log, without the key.
func TestKeysHandlerLog(t *testing.T) {
	core, logs := zaptest.New(zap.InfoLevel)
	g := guard(t, Keys{APIKeys: []APIKey{{Key: "right"}}})
	g.refusals.logger = zap.New(core)
	for range 2 {
		r, _ := prepared(http.MethodPost, "/v1/embeddings")
		r.Header.Set("Authorization", "Bearer guessed")
		must.OK(t, g.ServeHTTP(httptest.NewRecorder(), r, nil))
	}
	lines := logs.TakeAll()
	if len(lines) != 2 {
		t.Fatalf("%d lines", len(lines))
	}
	if line := lines[0]; line.Level != zap.WarnLevel || line.ContextMap()["path"] != "/v1/embeddings" || line.ContextMap()["missing"] != false || strings.Contains(fmt.Sprint(line), "guessed") {
		t.Errorf("the line is %v", line)
	}
}

// TestKeysHandlerBeforeCodex checks that a codex handler behind codex_keys applies the rest of the key's limits, with
// and without keys of its own, and that each request counts once, also those on a WebSocket.
func TestKeysHandlerBeforeCodex(t *testing.T) {
	path := writeKeys(t, map[string]string{"once": "user ann\nmodels fast\nrequests 9 day\nmax_concurrent 1"})
	g := guard(t, Keys{APIKeysFile: path})
	used := func() int64 {
		return localLimits.States(t.Context(), []*quota.Key{&g.keyFile.Set().Find("once").Key})[0][0].Used
	}
	for name, keys := range map[string]Keys{"no keys": {}, "the same file": {APIKeysFile: path}} {
		h := fakeHandler(t, t.Name())
		h.Keys = keys
		h = provision(t, h).handlers[0]
		before := used()
		r, _ := prepared(http.MethodPost, "/v1/chat/completions")
		r.Header.Set("Authorization", "Bearer once")
		must.OK(t, g.ServeHTTP(httptest.NewRecorder(), r, caddyhttp.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) error {
			for i, limits := range []int{0, 1, 1} {
				k, apiErr := h.recheckKey(r)
				if apiErr != nil || k.User != "ann" || !k.Allows("fast") || k.Allows("slow") || len(k.Limits) != limits {
					t.Errorf("%s: request %d: %+v, %v", name, i, k, apiErr)
				}
				request, err := localLimits.Begin(k)
				must.OK(t, err)
				grants, err := request.Acquire(1) // codex_keys holds the only place no longer
				must.OK(t, err)
				must.OK(t, request.Reserve(t.Context(), grants, 0))
				grants[0].Close(0)
			}
			return nil
		})))
		if n := used() - before; n != 3 {
			t.Errorf("%s: %d requests are counted", name, n)
		}
	}
}
