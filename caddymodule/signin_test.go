package caddymodule

import (
	"crypto/sha256"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-codex/caddy-codex/internal/apikeys"
)

const testAdminKey = "an-admin-key-of-a-test"

// TestResolveAdminKey checks which admin keys a configuration may have, and that no error shows one.
func TestResolveAdminKey(t *testing.T) {
	t.Setenv("ADMIN_KEY", " "+testAdminKey+"\n")
	for name, c := range map[string]struct {
		key    string
		noPage bool
		want   string // of the error; empty: there is none
	}{
		"none":                {"", false, ""},
		"as it is":            {testAdminKey, false, ""},
		"a variable":          {"{env.ADMIN_KEY}", false, ""},
		"no such variable":    {"{env.NO_ADMIN_KEY}", false, "is its variable or file set?"},
		"an unknown one":      {"{no.admin.key}", false, "is its variable or file set?"},
		"without the page":    {testAdminKey, true, "page on"},
		"too short":           {testAdminKey[:minAdminKey-1], false, "openssl rand"},
		"also a key of users": {"a-key-of-the-users", false, "also an api_key"},
	} {
		h := &Handler{AdminKey: c.key, Page: !c.noPage}
		h.keys = keyring{sha256.Sum256([]byte("a-key-of-the-users")): nil}
		err := h.resolveAdminKey(caddy.NewReplacer())
		switch {
		case c.want == "" && (err != nil || (h.adminKey != nil) != (c.key != "")):
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), c.key)):
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestAuthenticateAdmin checks which requests have the admin key: in Authorization alone, and from
// no page of another origin.
func TestAuthenticateAdmin(t *testing.T) {
	hash := apikeys.Hash(sha256.Sum256([]byte(testAdminKey)))
	h := &Handler{adminKey: &hash}
	for name, c := range map[string]struct {
		header map[string]string
		code   string // of the error; empty: there is none
	}{
		"the key":             {map[string]string{"Authorization": "Bearer " + testAdminKey}, ""},
		"none":                {nil, "invalid_api_key"},
		"another":             {map[string]string{"Authorization": "Bearer x" + testAdminKey}, "invalid_api_key"},
		"in another header":   {map[string]string{"X-Api-Key": testAdminKey}, "invalid_api_key"},
		"from another origin": {map[string]string{"Authorization": "Bearer " + testAdminKey, "Origin": "https://else.example", "Sec-Fetch-Site": "cross-site"}, "origin_not_allowed"},
	} {
		r := httptest.NewRequest(http.MethodPost, "https://x.example/codex/admin/login", nil)
		for header, value := range c.header {
			r.Header.Set(header, value)
		}
		err := h.authenticateAdmin(r)
		if (err == nil) != (c.code == "") || err != nil && string(err.Code) != c.code {
			t.Errorf("%s: %+v, want %q", name, err, c.code)
		}
	}
}

// TestSignInOfNone checks that a sign-in of an unknown app-server is a 404, and none begins.
func TestSignInOfNone(t *testing.T) {
	for _, method := range []string{http.MethodPost, http.MethodDelete} {
		for _, query := range []string{"", "?app_server=", "?app_server=none"} {
			now, err := adminAction(signIn).runFor(nil, httptest.NewRequest(method, "/codex/login"+query, nil))
			if now != nil || err == nil || err.Status != http.StatusNotFound {
				t.Errorf("%s %s: %+v, %+v", method, query, now, err)
			}
		}
	}
}
