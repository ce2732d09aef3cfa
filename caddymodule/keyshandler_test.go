package caddymodule

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-codex/caddy-codex/internal/quota"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// guard provisions a codex_keys.
func guard(t *testing.T, keys Keys) *KeysHandler {
	t.Helper()
	ctx, _ := newContext(t)
	loaded, err := ctx.LoadModuleByID("http.handlers.codex_keys", encode(t, KeysHandler{keys}))
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
