package caddymodule

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/caddyauth"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// TestKeysProvider checks that a password or a key opens a route, as whom, and that a key at a limit does not.
func TestKeysProvider(t *testing.T) {
	path := writeKeys(t, map[string]string{"ann": "user ann\nmax_concurrent 1", "rare": "requests 1 day"})
	ctx, _ := newContext(t)
	loaded, err := ctx.LoadModuleByID("http.handlers.authentication", json.RawMessage(`{"providers":{"codex_keys":{"api_keys_file":`+string(encode(t, path))+`},
		"http_basic":{"accounts":[{"username":"alice","password":"$2a$10$vCZTQOtpLNsk6Ylq47rppurjgUd45kLtq3v50LhPGe5ixDuHrAseS"}]}}}`))
	must.OK(t, err)
	guard := loaded.(caddyhttp.MiddlewareHandler)
	ask := func(header, value string, next func(r *http.Request)) (user string, challenge string, err error) {
		r, repl := prepared(http.MethodPost, "/")
		ended, end := context.WithCancel(r.Context())
		defer end()
		r = r.WithContext(ended)
		r.Header.Set(header, value)
		w := httptest.NewRecorder()
		err = guard.ServeHTTP(w, r, caddyhttp.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) error {
			user, _ = repl.GetString(userVariable)
			next(r)
			return nil
		}))
		return user, w.Header().Get("WWW-Authenticate"), err
	}
	nothing := func(*http.Request) {}
	if user, _, err := ask("Authorization", "Basic YWxpY2U6c2VjcmV0", nothing); user != "alice" || err != nil {
		t.Errorf("a password: %q, %v", user, err)
	}
	if user, _, err := ask("Authorization", "Bearer rare", nothing); user != "id-rare" || err != nil {
		t.Errorf("the only request: %q, %v", user, err)
	}
	for _, value := range []string{"Bearer rare", "Bearer wrong", "Basic YWxpY2U6d3Jvbmc=", ""} {
		if user, challenge, err := ask("Authorization", value, nothing); user != "" || challenge == "" || err.(caddyhttp.HandlerError).StatusCode != http.StatusUnauthorized {
			t.Errorf("%q: user %q, challenge %q, %v", value, user, challenge, err)
		}
	}
	user, _, err := ask("X-Api-Key", "ann", func(r *http.Request) {
		if len(r.Header) > 0 || presentedKey(r) != "ann" {
			t.Errorf("passed on with %v", r.Header)
		}
		if user, _, err := ask("X-Api-Key", "ann", nothing); user != "" || err == nil {
			t.Errorf("a second request at the same time: %q, %v", user, err)
		}
	})
	if user != "ann" || err != nil {
		t.Errorf("a key: %q, %v", user, err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) { // the place is free soon after the request
		if _, _, err := ask("X-Api-Key", "ann", nothing); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the key's only place stays taken")
		}
	}
}
