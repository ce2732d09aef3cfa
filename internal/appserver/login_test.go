package appserver

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// TestLoginFiles checks that a process knows with which login it was started, and that a
// change of the file shows until it is started again.
func TestLoginFiles(t *testing.T) {
	home := t.TempDir()
	file := filepath.Join(home, "auth.json")
	p := startProcess(t, "serve", func(cfg *Config) { cfg.Home = home })
	await(t, p, "it is ready", func(s Status) bool { return s.State == StateReady })
	if files := p.LoginFiles(); files != (LoginFiles{Ready: true}) {
		t.Errorf("without a file: %+v", files)
	}
	writeTestFile(t, file, "{}")
	changed := p.LoginFiles()
	if changed.Now == (LoginFile{}) || changed.Tried != (LoginFile{}) || changed.Serving != (LoginFile{}) {
		t.Errorf("with a file: %+v", changed)
	}
	must.OK(t, p.Restart())
	if files := p.LoginFiles(); files.Tried != files.Now {
		t.Errorf("with another one started: %+v", files)
	}
	await(t, p, "it was replaced", func(s Status) bool { return s.Replacements == 1 })
	if files := p.LoginFiles(); files.Serving != files.Now || files.Now != changed.Now {
		t.Errorf("after the replacement: %+v", files)
	}
	must.OK(t, os.Chtimes(file, time.Time{}, time.Unix(1, 0)))
	if files := p.LoginFiles(); files.Serving == files.Now || files.Tried == files.Now {
		t.Errorf("with another time: %+v", files)
	}
}

func TestLoginCommand(t *testing.T) {
	cfg := Config{Command: []string{"npx", "codex", "-c", "a=b", "app-server", "--x"}, Home: "/home/of", Env: map[string]string{"A": "1", "CODEX_HOME": "/other"}}
	cmd, err := cfg.LoginCommand(context.Background(), "login", "--device-auth")
	must.OK(t, err)
	if got := strings.Join(cmd.Args, " "); got != "npx codex -c a=b login --device-auth" {
		t.Error(got)
	}
	if !slices.Contains(cmd.Env, "A=1") || cmd.Env[len(cmd.Env)-1] != "CODEX_HOME=/home/of" {
		t.Error(cmd.Env)
	}
	for _, cfg := range []Config{{Command: []string{"codex", "secret"}}, {Command: []string{"app-server"}}} {
		if cmd, err := cfg.LoginCommand(context.Background(), "login"); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v made %v, %v", cfg, cmd, err)
		}
	}
}

// A login is refused if Codex would renew it and could not store it, and no other.
func TestCheckLoginFiles(t *testing.T) {
	const renewed = `{"tokens":{"access_token":"a","refresh_token":"r"}}`
	readOnly := func(name string) func(t *testing.T, home string) {
		return func(t *testing.T, home string) {
			if os.Geteuid() == 0 { // who may write to everything but a directory
				name = "auth.lock"
				must.OK(t, os.Mkdir(filepath.Join(home, name), 0o700))
				return
			}
			writeTestFile(t, filepath.Join(home, "auth.lock"), "")
			must.OK(t, os.Chmod(filepath.Join(home, name), 0o500))
			t.Cleanup(func() { _ = os.Chmod(filepath.Join(home, name), 0o700) })
		}
	}
	for name, c := range map[string]struct {
		login   string
		prepare func(t *testing.T, home string)
		fails   bool
	}{
		"writable":   {renewed, nil, false},
		"no login":   {"", readOnly("auth.lock"), false},
		"an API key": {`{"auth_mode":"apikey","OPENAI_API_KEY":"k"}`, readOnly("auth.json"), false},
		"no JSON":    {"{", readOnly("auth.lock"), false},
		"the file":   {renewed, readOnly("auth.json"), true},
		"the lock":   {renewed, readOnly("auth.lock"), true},
		"the directory": {renewed, func(t *testing.T, home string) {
			if os.Geteuid() == 0 {
				readOnly("")(t, home)
			} else if err := os.Chmod(home, 0o500); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.Chmod(home, 0o700) })
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			if c.login != "" {
				writeTestFile(t, filepath.Join(home, "auth.json"), c.login)
			}
			if c.prepare != nil {
				c.prepare(t, home)
			}
			err := checkLoginFiles(home)
			if errors.Is(err, errLoginFiles) != c.fails || c.fails && !strings.Contains(err.Error(), "CODEX_HOME="+home) {
				t.Errorf("%v", err)
			}
			if content, err := os.ReadFile(filepath.Join(home, "auth.json")); c.login != "" && (err != nil || string(content) != c.login) {
				t.Errorf("the login is %q (%v)", content, err)
			}
		})
	}
}

func writeLogin(t *testing.T, home string, end time.Time) {
	t.Helper()
	claims := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"exp":%d}`, end.Unix()))
	writeTestFile(t, filepath.Join(home, loginFiles[0]), fmt.Sprintf(`{"tokens":{"access_token":"e30.%s.c2ln","refresh_token":"r"}}`, claims))
}

func TestTokenEnd(t *testing.T) {
	home, end := t.TempDir(), time.Unix(1_900_000_000, 0)
	if _, renewable := tokenExpiry(home); renewable {
		t.Error("there is no login")
	}
	writeLogin(t, home, end)
	if got, renewable := tokenExpiry(home); !renewable || !got.Equal(end) {
		t.Errorf("it ends at %s (%t)", got, renewable)
	}
	for _, login := range []string{
		``, `[]`, `{"OPENAI_API_KEY":"sk-x"}`, `{"tokens":{"access_token":"a.b.c"}}`,
		`{"tokens":{"access_token":"","refresh_token":"r"}}`, `{"tokens":{"access_token":"a","refresh_token":"r"}}`,
		`{"tokens":{"access_token":"a.!!.c","refresh_token":"r"}}`, `{"tokens":{"access_token":"a.e30.c","refresh_token":"r"}}`,
	} {
		writeTestFile(t, filepath.Join(home, loginFiles[0]), login)
		if got, renewable := tokenExpiry(home); renewable {
			t.Errorf("%s ends at %s", login, got)
		}
	}
}

// A login with which no app-server could be started counts as new again after a pause.
func TestFailedLoginIsTriedAgain(t *testing.T) {
	home := t.TempDir()
	write := func(key string) LoginFile {
		t.Helper()
		must.OK(t, os.WriteFile(filepath.Join(home, "auth.json"), []byte(`{"OPENAI_API_KEY":"`+key+`"}`), 0o600))
		return loginFileOf(home)
	}
	p := newTestProcess(t, "", func(*Config) {})
	p.Start()
	awaitState(t, p, StateReady)
	p.published.setTriedLogin(home, write("old"))
	p.published.latest.login = loginFileOf(home)
	p.published.setTriedLogin(home, write("another"))
	p.published.setLoginFailed()
	if files := p.LoginFiles(); files.Replaced() {
		t.Error("it is tried again at once")
	}
	p.published.loginFailed = time.Now().Add(-loginRetry)
	if files := p.LoginFiles(); !files.Replaced() {
		t.Error("it is not tried again")
	}
}

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
