package caddymodule

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

func TestResolve(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	must.OK(t, os.WriteFile(secret, []byte("s3cret\n"), 0o600))
	t.Setenv("CADDYMODULE_BIN", "/opt/codex")
	t.Setenv("CADDYMODULE_HOME", "/srv/codex")
	t.Setenv("CADDYMODULE_EMPTY", "")
	for _, name := range []string{"NO_COLOR", "RUST_LOG"} {
		unset(t, name)
	}
	server := AppServer{
		Command: []string{"{env.CADDYMODULE_BIN}", "app-server", "-c", `a={b="c",d={}}`},
		Home:    "{env.CADDYMODULE_HOME}/one",
		Env: map[string]string{
			"TOKEN": "{file." + secret + "}",
			"EMPTY": "{env.CADDYMODULE_EMPTY}",
			"JSON":  `{"a":{"b":1}}`,
		},
	}
	got := resolved(t, &server)
	// Braces that are no placeholder stay as they are.
	if want := []string{"/opt/codex", "app-server", "-c", `a={b="c",d={}}`}; !slices.Equal(got.Command, want) {
		t.Errorf("the command is %q, want %q", got.Command, want)
	}
	if got.Home != "/srv/codex/one" {
		t.Errorf("home %q", got.Home)
	}
	if got.Client.Name != "caddy-codex" || got.Client.Version == "" {
		t.Errorf("the client is %+v", got.Client)
	}
	want := map[string]string{"TOKEN": "s3cret", "EMPTY": "", "JSON": `{"a":{"b":1}}`}
	maps.Copy(want, logEnv)
	if !maps.Equal(got.Env, want) {
		t.Errorf("variables %q, want %q", got.Env, want)
	}
	if server.Home != "{env.CADDYMODULE_HOME}/one" || server.Command[0] != "{env.CADDYMODULE_BIN}" {
		t.Errorf("the configuration itself was changed: %+v", server)
	}
}

func TestAbsolute(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for program, want := range map[string]string{
		"codex":          "codex",
		"/opt/bin/codex": "/opt/bin/codex",
		"./codex":        filepath.Join(here, "codex"),
		"bin/codex":      filepath.Join(here, "bin", "codex"),
		"../codex":       filepath.Join(filepath.Dir(here), "codex"),
	} {
		if got := resolved(t, &AppServer{Command: []string{program}}).Command[0]; got != want {
			t.Errorf("%s: %s, want %s", program, got, want)
		}
	}
	// A program that runs in a directory of its own would look for its home there.
	cfg := resolved(t, &AppServer{Home: "home"})
	if cfg.Home != filepath.Join(here, "home") {
		t.Errorf("home %s", cfg.Home)
	}
}

// The operator's settings of the log take precedence over the module's: first those of
// the configuration, then those of the environment.
func TestQuietLogGivesWay(t *testing.T) {
	t.Setenv("RUST_LOG", "debug")
	unset(t, "NO_COLOR")
	if got := resolved(t, new(AppServer)).Env; !maps.Equal(got, map[string]string{"NO_COLOR": "1"}) {
		t.Errorf("beside the environment's RUST_LOG: %q", got)
	}
	server := AppServer{Env: map[string]string{"RUST_LOG": "trace", "NO_COLOR": ""}}
	if got := resolved(t, &server).Env; !maps.Equal(got, server.Env) {
		t.Errorf("beside the configuration's: %q", got)
	}
}

// unset unsets a variable until the end of the test.
func unset(t *testing.T, name string) {
	t.Helper()
	t.Setenv(name, "") // for its cleanup
	must.OK(t, os.Unsetenv(name))
}
