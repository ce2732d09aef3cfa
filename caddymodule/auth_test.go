package caddymodule

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// prepared returns a request as Caddy's server passes it to handlers.
func prepared(method, target string) (*http.Request, *caddy.Replacer) {
	repl := caddy.NewReplacer()
	r := httptest.NewRequest(method, target, nil)
	r.Host = "localhost" // by which everybody may call
	return caddyhttp.PrepareRequest(r, repl, nil, nil), repl
}

func ringOf(t testing.TB, keys ...APIKey) keyring {
	t.Helper()
	ring, err := newKeyring(keys, caddy.NewReplacer())
	must.OK(t, err)
	return ring
}

// allows reports whether a handler with these keys accepts the key of a request.
func (ring keyring) allows(r *http.Request) bool {
	_, apiErr := (&Keys{keys: ring}).checkKey(r)
	return apiErr == nil
}

func TestAllows(t *testing.T) {
	t.Setenv("CADDYMODULE_KEY", "sk-from-env")
	t.Setenv("CADDYMODULE_USER", "carol")
	ring := ringOf(t,
		APIKey{Key: "sk-alice", User: "alice"},
		APIKey{Key: "sk-nobody"},
		APIKey{Key: " {env.CADDYMODULE_KEY}\n", User: "{env.CADDYMODULE_USER}"},
		APIKey{Key: `sk-\{x\}`, User: "braces"}, // escaped, as elsewhere in Caddy
	)
	for _, test := range []struct {
		header string
		allow  bool
		user   string
	}{
		{"Bearer sk-alice", true, "alice"},
		{"Bearer sk-nobody", true, "key-2"},
		{"Bearer sk-from-env", true, "carol"},
		{"bearer sk-alice", true, "alice"},
		{"BEARER sk-alice", true, "alice"},
		{"Bearer   sk-alice ", true, "alice"},
		{"Bearer sk-{x}", true, "braces"},

		{"", false, ""},
		{"Bearer", false, ""},
		{"Bearer ", false, ""},
		{"sk-alice", false, ""},
		{" sk-alice", false, ""},
		{"Basic sk-alice", false, ""},
		{"Bearer: sk-alice", false, ""},
		{"Bearer sk-Alice", false, ""},
		{"Bearer sk-alic", false, ""},
		{"Bearer sk-alicee", false, ""},
		{"Bearer sk-alice sk-nobody", false, ""},
		{"Bearer Bearer sk-alice", false, ""},
		{"Bearer {env.CADDYMODULE_KEY}", false, ""},
	} {
		t.Run(test.header, func(t *testing.T) {
			r, repl := prepared(http.MethodGet, "/v1/models")
			r.Header.Set("Authorization", test.header)
			if got := ring.allows(r); got != test.allow {
				t.Errorf("allowed: %t, want %t", got, test.allow)
			}
			if user, set := repl.GetString("http.auth.user.id"); user != test.user || set != (test.user != "") {
				t.Errorf("the user is %q (set: %t), want %q", user, set, test.user)
			}
		})
	}
}

// TestUnnamedKeys: a user with the name of an unnamed key is another user than the holder
// of that key, and names that already have accounts do not change.
func TestUnnamedKeys(t *testing.T) {
	ring := ringOf(t, APIKey{Key: "one", User: "key-2"}, APIKey{Key: "two"}, APIKey{Key: "three", User: "user:key-2"}, APIKey{Key: "four", User: "key-x"})
	byKey := func(key string) string {
		r, _ := prepared(http.MethodGet, "/v1/models")
		r.Header.Set("Authorization", "Bearer "+key)
		if !ring.allows(r) {
			t.Errorf("%s is refused", key)
		}
		return userOf(r)
	}
	for key, want := range map[string]string{"one": "user:key-2", "two": "key-2", "three": "user:user:key-2", "four": "key-x"} {
		if user := byKey(key); user != want {
			t.Errorf("the user of %s is %q, want %q", key, user, want)
		}
	}
	for name, want := range map[string]string{"key-2": "user:key-2", "key-": "key-", "Key-2": "Key-2", "key-2\n": "key-2\n", "bob": "bob"} {
		r, repl := prepared(http.MethodGet, "/v1/models")
		repl.Set("http.auth.user.id", name) // by another handler
		if user := userOf(r); user != want {
			t.Errorf("%q became %q, want %q", name, user, want)
		}
	}
}

// Without keys the handler keeps the user that another handler has set.
func TestAllowsWithoutKeys(t *testing.T) {
	for _, header := range []string{"", "Bearer anything", "Basic Ym9iOnNlY3JldA=="} {
		r, repl := prepared(http.MethodGet, "/v1/models")
		r.Header.Set("Authorization", header)
		repl.Set("http.auth.user.id", "bob")
		if !ringOf(t).allows(r) {
			t.Errorf("%q is refused", header)
		}
		if user, _ := repl.GetString("http.auth.user.id"); user != "bob" {
			t.Errorf("%q: the user became %q", header, user)
		}
	}
}

// An empty key, or one with a variable that is not set, is refused, by an error without the key.
func TestRefusedKeys(t *testing.T) {
	const secret = "sk-very-secret"
	t.Setenv("CADDYMODULE_EMPTY", "")
	t.Setenv("CADDYMODULE_BLANK", " \t")
	for key, want := range map[string]string{
		"":                                 "api_key 2 is empty",
		"  ":                               "api_key 2 is empty",
		"{env.CADDYMODULE_BLANK}":          "api_key 2 is empty",
		"{env.CADDYMODULE_EMPTY}":          "api_key 2 has a placeholder that is empty",
		"{file./no/such/file}":             "api_key 2 has a placeholder that is empty",
		secret + "{env.CADDYMODULE_EMPTY}": "api_key 2 has a placeholder that is empty",
		"{" + secret + "}":                 "api_key 2 has a placeholder that is empty or unknown",
	} {
		_, err := newKeyring([]APIKey{{Key: secret}, {Key: key}}, caddy.NewReplacer())
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %q", key, err, want)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("the error shows the key: %v", err)
		}
	}
	for want, keys := range map[string][]APIKey{
		"api_key 2 is the same as api_key 1":                       {{Key: secret, User: "a"}, {Key: " " + secret, User: "b"}},
		"the user of api_key 1 has a placeholder that is empty or": {{Key: secret, User: "{env.CADDYMODULE_EMPTY}"}},
	} {
		_, err := newKeyring(keys, caddy.NewReplacer())
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), secret) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for _, config := range []string{
		`{"api_keys":["` + secret + `"]}`,
		`{"api_keys":{"` + secret + `":"alice"}}`,
		`{"api_keys":[{"key":"` + secret + `","user":5}]}`,
		`{"api_keys":[{"key":"` + secret + `"},{"key":""}]}`,
		`{"api_keys":[{"key":"` + secret + `"}],"max_body":-1}`,
		`{"app_servers":[{"env":{"KEY=` + secret + `":""}}]}`,
		`{"app_servers":[{"command":["codex","","` + secret + `"]}]}`,
	} {
		if err := refused(t, config); strings.Contains(err.Error(), secret) {
			t.Errorf("the error shows the key: %v", err)
		}
	}
}

// writeKeys writes a file of keys, each with more options, and returns its path.
func writeKeys(t testing.TB, keys map[string]string) string {
	t.Helper()
	var content strings.Builder
	for key, options := range keys {
		fmt.Fprintf(&content, "key id-%s {\nhash sha256:%x\n%s\n}\n", key, sha256.Sum256([]byte(key)), options)
	}
	path := filepath.Join(t.TempDir(), "keys")
	must.OK(t, os.WriteFile(path, []byte(content.String()), 0o600))
	return path
}

// withKeys returns a handler that has read its file of keys.
func withKeys(t testing.TB, h *Handler) *Handler {
	t.Helper()
	ctx, cancel := caddy.NewContext(caddy.Context{Context: t.Context()})
	t.Cleanup(cancel)
	must.OK(t, h.openKeys(ctx, caddy.NewReplacer()))
	t.Cleanup(func() { _ = h.Cleanup() })
	return h
}

// TestKeysOfAFile checks the users of keys in a file and of keys in the configuration
// beside it, and who is refused.
func TestKeysOfAFile(t *testing.T) {
	t.Setenv("CADDYMODULE_KEYS", writeKeys(t, map[string]string{
		"ann": "user ann", "nameless": "", "odd": "user key-1",
		"old": "user ann\nexpires 2020-01-31", "new": "user ann\nexpires 2920-01-31",
	}))
	file := withKeys(t, &Handler{Keys: Keys{APIKeysFile: "{env.CADDYMODULE_KEYS}"}})
	both := withKeys(t, &Handler{Keys: Keys{APIKeysFile: "{env.CADDYMODULE_KEYS}", APIKeys: []APIKey{{Key: "static"}}}})
	for key, want := range map[string]struct {
		user string
		code apierror.Code
	}{
		"ann":      {user: "ann"},
		"nameless": {user: "id-nameless"},
		"odd":      {user: "user:key-1"},
		"new":      {user: "ann"},
		"old":      {code: apierror.CodeAPIKeyExpired},
		"static":   {user: "key-1"},
		"other":    {code: apierror.CodeInvalidAPIKey},
		"":         {code: apierror.CodeInvalidAPIKey},
		"id-ann":   {code: apierror.CodeInvalidAPIKey},
	} {
		for name, h := range map[string]*Handler{"file": file, "both": both} {
			r, _ := prepared(http.MethodGet, "/v1/models")
			r.Header.Set("Authorization", "Bearer "+key)
			var code apierror.Code
			if _, apiErr := h.checkKey(r); apiErr != nil {
				code = apiErr.Code
			}
			if name == "file" && key == "static" {
				want.user, want.code = "", apierror.CodeInvalidAPIKey
			} else if key == "static" {
				want.user, want.code = "key-1", ""
			}
			if user := userOf(r); code != want.code || user != want.user {
				t.Errorf("%s: %q is %q, %q", name, key, user, code)
			}
		}
	}
}

// TestEmptyKeyFile checks that a file without keys lets nobody in, unlike no file.
func TestEmptyKeyFile(t *testing.T) {
	h := withKeys(t, &Handler{Keys: Keys{APIKeysFile: writeKeys(t, nil)}})
	r, _ := prepared(http.MethodGet, "/v1/models")
	if _, apiErr := h.checkKey(r); apiErr == nil {
		t.Error("a request without a key is allowed")
	}
}

// TestBrokenKeyFile checks that the configuration is refused, with the file and the line.
func TestBrokenKeyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	must.OK(t, os.WriteFile(path, []byte("\nkey a {\nhash sk-secret\n}"), 0o600))
	if err := refused(t, `{"api_keys_file":"`+path+`"}`); !strings.Contains(err.Error(), path+":3") || strings.Contains(err.Error(), "sk-secret") {
		t.Error(err)
	}
	if err := refused(t, `{"api_keys_file":"`+path+`.no"}`); !strings.Contains(err.Error(), path+".no") || !strings.Contains(err.Error(), "caddy codex key add") {
		t.Error(err)
	}
	if err := refused(t, `{"api_keys_file":"{env.CADDYMODULE_NO_SUCH}"}`); !strings.Contains(err.Error(), "placeholder") {
		t.Error(err)
	}
}

// TestKeyUsage checks what callers and the metrics see of the limits of keys.
func TestKeyUsage(t *testing.T) {
	limits := "requests 10 1h\ntokens 1000 30d"
	path := writeKeys(t, map[string]string{"use-ann": "user ann\n" + limits, "use-ann2": "user ann", "use-ben": "user ben\n" + limits})
	h := fakeHandler(t, t.Name())
	h.APIKeysFile = path
	all := fakeHandler(t, t.Name())
	all.APIKeysFile, all.Usage = path, usageAll
	handlers := provision(t, h, all).handlers
	for range 4 {
		request, err := localLimits.Begin(&handlers[0].keyFile.Set().Find("use-ann").Key)
		if err != nil || request.Reserve(t.Context(), nil, 0) != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []string{"id-use-ann,id-use-ann2", "id-use-ann,id-use-ann2,id-use-ben"} {
		w, err := ask(handlers[i], http.MethodGet, "/v1/usage", "use-ann", nil)
		must.OK(t, err)
		var body struct{ Keys []keyUsage }
		if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
			t.Fatal(err, w.Body)
		}
		var ids []string
		for _, k := range body.Keys {
			ids = append(ids, k.Key)
			if k.Key == "id-use-ann" && (len(k.Limits) != 2 || k.Limits[0].Used != 4 || k.Limits[0].Remaining != 6 || k.Limits[0].Resets == nil ||
				k.Limits[1].Used != 0 || k.Limits[1].Window != "720h") {
				t.Errorf("%s", w.Body)
			}
		}
		slices.Sort(ids)
		if got := strings.Join(ids, ","); got != want {
			t.Errorf("handler %d shows %s, want %s", i, got, want)
		}
	}
	registry := prometheus.NewPedanticRegistry()
	must.OK(t, registry.Register(stateCollector{}))
	if got := measured(t, registry)["codex_key_used key=id-use-ann unit=requests user=ann window=1h"]; got != 4 {
		t.Errorf("the metrics say that %v are used", got)
	}
}
