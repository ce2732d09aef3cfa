package caddymodule

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
)

// writeKeys writes a file of keys, each with more options, and returns its path.
func writeKeys(t testing.TB, keys map[string]string) string {
	t.Helper()
	var content strings.Builder
	for key, options := range keys {
		fmt.Fprintf(&content, "key id-%s {\nhash sha256:%x\n%s\n}\n", key, sha256.Sum256([]byte(key)), options)
	}
	path := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(path, []byte(content.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// withKeys returns a handler that has read its file of keys.
func withKeys(t testing.TB, h *Handler) *Handler {
	t.Helper()
	ctx, cancel := caddy.NewContext(caddy.Context{Context: t.Context()})
	t.Cleanup(cancel)
	if err := h.openKeys(ctx, caddy.NewReplacer()); err != nil {
		t.Fatal(err)
	}
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
	file := withKeys(t, &Handler{APIKeysFile: "{env.CADDYMODULE_KEYS}"})
	both := withKeys(t, &Handler{APIKeysFile: "{env.CADDYMODULE_KEYS}", keys: ringOf(t, APIKey{Key: "static"})})
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
	h := withKeys(t, &Handler{APIKeysFile: writeKeys(t, nil)})
	r, _ := prepared(http.MethodGet, "/v1/models")
	if _, apiErr := h.checkKey(r); apiErr == nil {
		t.Error("a request without a key is allowed")
	}
}

// TestBrokenKeyFile checks that the configuration is refused, with the file and the line.
func TestBrokenKeyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(path, []byte("\nkey a {\nhash sk-secret\n}"), 0o600); err != nil {
		t.Fatal(err)
	}
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
		if err != nil {
			t.Fatal(err)
		}
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
	if err := registry.Register(stateCollector{}); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, f := range families {
		for _, m := range f.Metric {
			if f.GetName() == "codex_key_used" && m.Label[0].GetValue() == "id-use-ann" && m.Gauge.GetValue() == 4 {
				seen++
			}
		}
	}
	if seen != 1 {
		t.Errorf("the metrics have the use %d times", seen)
	}
}
