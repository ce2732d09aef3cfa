package appserver

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
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
	if err := p.Restart(); err != nil {
		t.Fatal(err)
	}
	if files := p.LoginFiles(); files.Tried != files.Now {
		t.Errorf("with another one started: %+v", files)
	}
	await(t, p, "it was replaced", func(s Status) bool { return s.Replacements == 1 })
	if files := p.LoginFiles(); files.Serving != files.Now || files.Now != changed.Now {
		t.Errorf("after the replacement: %+v", files)
	}
	if err := os.Chtimes(file, time.Time{}, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if files := p.LoginFiles(); files.Serving == files.Now || files.Tried == files.Now {
		t.Errorf("with another time: %+v", files)
	}
}

// TestLoginCommand checks how codex is called for a login.
func TestLoginCommand(t *testing.T) {
	cfg := Config{Command: []string{"npx", "codex", "-c", "a=b", "app-server", "--x"}, Home: "/home/of", Env: map[string]string{"A": "1", "CODEX_HOME": "/other"}}
	cmd, err := cfg.LoginCommand(context.Background(), "--device-auth")
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(cmd.Args, " "); got != "npx codex -c a=b login --device-auth" {
		t.Error(got)
	}
	if !slices.Contains(cmd.Env, "A=1") || cmd.Env[len(cmd.Env)-1] != "CODEX_HOME=/home/of" {
		t.Error(cmd.Env)
	}
	for _, cfg := range []Config{{Connect: "ws://x"}, {Command: []string{"serve", "secret"}}, {Command: []string{"app-server"}}} {
		if cmd, err := cfg.LoginCommand(context.Background()); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v made %v, %v", cfg, cmd, err)
		}
	}
}
