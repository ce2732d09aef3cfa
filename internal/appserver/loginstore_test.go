package appserver

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

const someLogin = `{"OPENAI_API_KEY":null,"auth_mode":"chatgpt","tokens":{"id_token":"i1","access_token":"a1","refresh_token":"r1","account_id":"x"},"last_refresh":"2026-01-01T00:00:00Z","new":{"a":[1]}}`

// TestRenewedLogin checks which tokens come into the file, and that everything else stays.
func TestRenewedLogin(t *testing.T) {
	now := time.Date(2026, 2, 3, 4, 5, 6, 7, time.FixedZone("", 3600))
	for answer, want := range map[string]string{
		`{"id_token":"i2","access_token":"a2","refresh_token":"r2","expires_in":3}`: `{"id_token":"i2","access_token":"a2","refresh_token":"r2","account_id":"x"}`,
		`{"access_token":"a2","refresh_token":null}`:                                `{"id_token":"i1","access_token":"a2","refresh_token":"r1","account_id":"x"}`,
		`{"access_token":"a2","id_token":"","refresh_token":7}`:                     `{"id_token":"i1","access_token":"a2","refresh_token":"r1","account_id":"x"}`,
	} {
		got, err := renewedLogin([]byte(someLogin), "r1", []byte(answer), now)
		whole := `{"OPENAI_API_KEY":null,"auth_mode":"chatgpt","tokens":` + want + `,"last_refresh":"2026-02-03T03:05:06.000000007Z","new":{"a":[1]}}`
		if err != nil || !reflect.DeepEqual(parsed(t, got), parsed(t, []byte(whole))) {
			t.Errorf("%s: %s, %v", answer, got, err)
		}
	}
	if got, err := renewedLogin([]byte(someLogin), "r0", []byte(`{"access_token":"a2"}`), now); got != nil || err != nil {
		t.Errorf("another login becomes %s, %v", got, err)
	}
	for content, answer := range map[string]string{``: `{}`, `[]`: `{}`, `{}`: `{}`, `{"tokens":7}`: `{}`, someLogin: `<html>`} {
		if got, err := renewedLogin([]byte(content), "r1", []byte(answer), now); got != nil || err == nil {
			t.Errorf("%q with %q becomes %s", content, answer, got)
		}
	}
}

func parsed(t *testing.T, text []byte) (value any) {
	t.Helper()
	must.OK(t, json.Unmarshal(text, &value))
	return value
}

// The target of a link is replaced, for its user alone, and nothing else is left in its directory.
func TestStore(t *testing.T) {
	dir, link := t.TempDir(), filepath.Join(t.TempDir(), "link.json")
	path := filepath.Join(dir, "auth.json")
	must.OK(t, os.WriteFile(path, []byte(someLogin), 0o644))
	must.OK(t, os.Symlink(path, link))
	must.OK(t, storeLogin(link, "r1", []byte(`{"refresh_token":"r2"}`), time.Now()))
	names, _ := os.ReadDir(dir)
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 || len(names) != 1 || refreshIn(t, link) != "r2" {
		t.Errorf("%v, %v, %v", names, info, err)
	}
	if err := storeLogin(filepath.Join(dir, "none"), "r1", []byte(`{}`), time.Now()); err == nil {
		t.Error("tokens were stored in no file")
	}
}

// refreshIn returns the refresh token in an auth.json.
func refreshIn(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	var login struct {
		Tokens struct {
			Refresh string `json:"refresh_token"`
		} `json:"tokens"`
	}
	if err != nil || json.Unmarshal(content, &login) != nil {
		t.Fatalf("%s, %v", content, err)
	}
	return login.Tokens.Refresh
}
