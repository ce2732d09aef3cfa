package caddymodule

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/usage"
)

// Callers see only the account of their key's user.
func TestUsageIsTheCallersOwn(t *testing.T) {
	// The book has no end, so that each run needs users of its own.
	ann, ben := "ann-"+rand.Text(), "ben-"+rand.Text()
	h := started(t, APIKey{Key: "k-ann", User: ann}, APIKey{Key: "k-ben", User: ben})
	for _, user := range []string{ann, ben} {
		observer{turnLogger: zap.NewNop()}.TurnsEnded(t.Context(), []usage.Record{{User: user, RequestID: "by-" + user, Status: http.StatusOK, Usage: codexrpc.Usage{InputTokens: 1234}}})
	}
	for key, users := range map[string]struct{ self, other string }{"k-ann": {ann, ben}, "k-ben": {ben, ann}} {
		w, err := ask(h, http.MethodGet, "/v1/usage/raw", key, nil)
		if err != nil || w.Code != http.StatusOK {
			t.Fatalf("%v, %d %s", err, w.Code, w.Body)
		}
		if text := w.Body.String(); !strings.Contains(text, "by-"+users.self) || strings.Contains(text, users.other) {
			t.Errorf("%s sees %s", key, text)
		}
		if got := w.Header().Get("Cache-Control"); got != "no-store" {
			t.Errorf("the account may be cached: %q", got)
		}
		w, err = ask(h, http.MethodGet, "/v1/usage", key, nil)
		if err != nil || w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"prompt_tokens":1234,`) {
			t.Errorf("the sum for %s: %v, %d %s", key, err, w.Code, w.Body)
		}
	}
	if w, err := ask(h, http.MethodGet, "/v1/usage", "k-ann", nil); err != nil || strings.Contains(w.Body.String(), "by_user") || !strings.Contains(w.Body.String(), `"rate_limits":`) {
		t.Errorf("%v, %s", err, w.Body)
	}
	if w, err := ask(h, http.MethodGet, "/v1/usage", "", nil); err != nil || w.Code != http.StatusUnauthorized {
		t.Errorf("without a key: %v, %d %s", err, w.Code, w.Body)
	}
}

// Other handlers may give users any names.
func TestUserOf(t *testing.T) {
	seen := make(map[string]bool)
	for _, user := range []string{"", "ann", "J\xfcrgen", "J\xf6rgen", "J\ufffdrgen", strings.Repeat("x", 1000), strings.Repeat("x", 1001)} {
		r, repl := prepared(http.MethodGet, "/v1/usage")
		repl.Set("http.auth.user.id", user)
		got := userOf(r)
		if seen[got] || !utf8.ValidString(got) || len(got) > 200 || (len(user) < 10 && utf8.ValidString(user) && got != user) {
			t.Errorf("%.20q is %q", user, got)
		}
		seen[got] = true
	}
}

// With `usage all` each caller sees the sum, and each user's part.
func TestUsageOfAll(t *testing.T) {
	ann, ben := "ann-"+rand.Text(), "ben-"+rand.Text()
	h := fakeHandler(t, t.Name())
	h.Usage = usageAll
	h = provision(t, h).handlers[0]
	for _, user := range []string{ann, ben} {
		observer{turnLogger: zap.NewNop()}.TurnsEnded(t.Context(), []usage.Record{{User: user, Status: http.StatusOK}})
	}
	for target, want := range map[string]string{"/v1/usage": `{"name":"%s","requests":1,`, "/v1/usage/raw": `"user":"%s",`} {
		w, err := ask(h, http.MethodGet, target, "", nil)
		if err != nil || w.Code != http.StatusOK {
			t.Fatalf("%s: %v, %d %s", target, err, w.Code, w.Body)
		}
		for _, user := range []string{ann, ben} {
			if !strings.Contains(w.Body.String(), fmt.Sprintf(want, user)) {
				t.Errorf("%s is not in %s: %s", user, target, w.Body)
			}
		}
	}
}

// TestUsageFileMode: only Caddy's user can read the usage,
// whatever the umask, and also if the file was readable for others before.
func TestUsageFileMode(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	file := filepath.Join(caddy.AppDataDir(), "codex", "usage.json")
	for _, loosened := range []bool{false, true} {
		if loosened {
			must.OK(t, os.Chmod(file, 0o644))
		}
		c := provision(t, fakeHandler(t, t.Name()))
		c.start(t)
		observer{turnLogger: zap.NewNop()}.TurnsEnded(t.Context(), []usage.Record{{User: "somebody", Status: http.StatusOK}})
		c.cleanup() // it stores the usage
		for path, want := range map[string]os.FileMode{file: 0o600, filepath.Dir(file): 0o700} {
			info, err := os.Stat(path)
			must.OK(t, err)
			if got := info.Mode().Perm(); got != want {
				t.Errorf("%s has the mode %o, want %o (loosened: %t)", path, got, want, loosened)
			}
		}
	}
}
