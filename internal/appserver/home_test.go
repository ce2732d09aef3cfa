package appserver

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

func entries(t *testing.T, dir string) (names []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	must.OK(t, err)
	for _, entry := range list {
		names = append(names, entry.Name())
	}
	return names
}

// All homes of a login have one installation id, also if several processes start with a login that
// has none, and a home which cannot be written to does not keep Codex from starting.
func TestInstallationIDStays(t *testing.T) {
	operator := t.TempDir()
	cfg := Config{Home: operator}
	ids := make(chan string, 8)
	for range cap(ids) {
		dir := t.TempDir()
		go func() {
			var id []byte
			defer func() { ids <- string(id) }()
			h, err := cfg.newPrivateHome(dir)
			if err != nil {
				t.Error(err)
				return
			}
			id, err = os.ReadFile(h.codexFile(installationIDFile))
			if err != nil || !installationID.Match(id) {
				t.Errorf("%v: %q", err, id)
			}
		}()
	}
	seen := make(map[string]bool)
	for range cap(ids) {
		seen[<-ids] = true
	}
	if got := entries(t, operator); len(seen) != 1 || !slices.Equal(got, []string{installationIDFile}) {
		t.Errorf("the ids are %v, and the login has %q", seen, got)
	}
	cfg.Home = filepath.Join(operator, "nowhere")
	if _, err := cfg.newPrivateHome(t.TempDir()); err != nil {
		t.Error(err)
	}
}

func TestPrivateHome(t *testing.T) {
	operator, user := t.TempDir(), t.TempDir()
	t.Setenv("HOME", user)
	for _, path := range []string{"AGENTS.md", "skills/a/SKILL.md", "sessions/2026/x.jsonl", "hooks.json", "x.config.toml"} {
		writeNested(t, filepath.Join(operator, path), "of the operator")
	}
	writeTestFile(t, filepath.Join(operator, configFile), "notify = [\"x\"]\n[model_providers.p]\nenv_key = \"OWN_KEY\"\n")
	writeTestFile(t, filepath.Join(operator, installationIDFile), "21c77790-00a1-4c5c-8c73-b9b3f98dbc3b\n")
	writeTestFile(t, filepath.Join(operator, variablesFile), "OPENAI_API_KEY=a\nexport OWN_KEY='b c'\n# OWN_KEY=c\n  https_proxy = http://p\nCODEX_HOME=/x\n\nOWN_KEY_TOO=d")
	writeNested(t, filepath.Join(user, ".agents/skills/a/SKILL.md"), "of the user")
	writeNested(t, filepath.Join(user, ".aws/config"), "of the user")

	cfg := Config{Home: operator}
	h, err := cfg.newPrivateHome(t.TempDir())
	must.OK(t, err)
	got := slices.DeleteFunc(entries(t, h.codexDir()), func(name string) bool { return strings.HasPrefix(name, "logs_") })
	if info, err := os.Stat(h.codexFile("logs_2.sqlite")); err != nil || !info.IsDir() {
		t.Errorf("Codex can write its log: %v", err)
	}
	if want := []string{variablesFile, "auth.json", "auth.lock", configFile, picturesDir, installationIDFile}; !slices.Equal(got, want) {
		t.Errorf("the home has %q, want %q", got, want)
	}
	checkTestFile(t, h.codexFile(variablesFile), "export OWN_KEY='b c'\n  https_proxy = http://p\n")
	checkTestFile(t, h.codexFile(picturesDir), "") // where Codex would make a directory
	checkTestFile(t, h.codexFile(installationIDFile), "21c77790-00a1-4c5c-8c73-b9b3f98dbc3b")
	checkTestFile(t, filepath.Join(h.userDir(), ".aws/config"), "of the user")
	if got := entries(t, h.userDir()); !slices.Equal(got, []string{".aws"}) {
		t.Errorf("the user's home has %q", got)
	}
	// What is written through the links is the operator's.
	writeTestFile(t, h.codexFile("auth.json"), "a login")
	checkTestFile(t, filepath.Join(operator, "auth.json"), "a login")
	if err := h.remove(); err != nil {
		t.Error(err)
	}
	checkTestFile(t, filepath.Join(operator, "auth.json"), "a login")
	checkTestFile(t, filepath.Join(user, ".aws/config"), "of the user")
}

func writeNested(t *testing.T, path, content string) {
	t.Helper()
	must.OK(t, os.MkdirAll(filepath.Dir(path), 0o700))
	writeTestFile(t, path, content)
}

func TestOperatorHome(t *testing.T) {
	user := t.TempDir()
	t.Setenv("HOME", user)
	for _, test := range []struct {
		cfg         Config
		environment string
		want        string
	}{
		{Config{Home: "/a", Env: map[string]string{"CODEX_HOME": "/b"}}, "/c", "/a"},
		{Config{Env: map[string]string{"CODEX_HOME": "/b"}}, "/c", "/b"},
		{Config{}, "/c", "/c"},
		{Config{}, "", filepath.Join(user, ".codex")},
	} {
		t.Setenv("CODEX_HOME", test.environment)
		if got, err := test.cfg.OperatorHome(); err != nil || got != test.want {
			t.Errorf("%+v: got %q, %v; want %q", test.cfg, got, err, test.want)
		}
	}
}

// The operator's home may be empty: the login may come later.
func TestPrivateHomeOfNothing(t *testing.T) {
	operator := filepath.Join(t.TempDir(), "none")
	h, err := (&Config{Home: operator}).newPrivateHome(t.TempDir())
	must.OK(t, err)
	if target, err := os.Readlink(h.codexFile("auth.json")); err != nil || target != filepath.Join(operator, "auth.json") {
		t.Errorf("the login is in %q, %v", target, err)
	}
	if entries(t, filepath.Dir(operator)) != nil {
		t.Error("something was made in the place of the operator's home")
	}
}

// TestPrivateHomeFails checks that nothing is left of a home that cannot be made, and what a
// file of the operator's that cannot be used is said to be.
func TestPrivateHomeFails(t *testing.T) {
	operator, dir := t.TempDir(), t.TempDir()
	writeNested(t, filepath.Join(operator, variablesFile, "x"), "it is a directory")
	_, err := (&Config{Home: operator}).newPrivateHome(dir)
	if what, _ := remedyFor(err); err == nil || !strings.Contains(err.Error(), variablesFile) || !strings.Contains(what, variablesFile) {
		t.Errorf("got %v: %s", err, what)
	}
	if got := entries(t, dir); got != nil {
		t.Errorf("left behind: %q", got)
	}
}

// The error for a missing login has the place of the login.
func TestNotLoggedIn(t *testing.T) {
	operator := t.TempDir()
	for config, want := range map[string]string{
		"":                                       "run `codex login` for the user of this server and CODEX_HOME=" + operator,
		`cli_auth_credentials_store = "keyring"`: `set cli_auth_credentials_store = "file" in its config.toml, then run`,
		`cli_auth_credentials_store = "auto"`:    `(cli_auth_credentials_store = "auto") is for codex in ` + operator + " alone",
	} {
		writeTestFile(t, filepath.Join(operator, configFile), config)
		p := newTestProcess(t, "logged-out", func(cfg *Config) { cfg.Home = operator })
		p.Start()
		if reason := awaitState(t, p, StateBackoff).Reason; !strings.Contains(reason, want) || !strings.Contains(reason, codexrpc.ErrNotLoggedIn.Error()) {
			t.Errorf("%s: the reason is %q, without %q", config, reason, want)
		}
	}
}

// Nothing starts with a broken config.toml until it is repaired.
func TestStartWithABrokenConfig(t *testing.T) {
	operator := t.TempDir()
	writeTestFile(t, filepath.Join(operator, configFile), "model = [")
	p := startProcess(t, "", func(cfg *Config) { cfg.Home = operator })
	if reason := awaitState(t, p, StateBackoff).Reason; !strings.Contains(reason, filepath.Join(operator, configFile)+": line 1") {
		t.Errorf("the reason is %q", reason)
	}
	writeTestFile(t, filepath.Join(operator, configFile), "")
	awaitState(t, p, StateReady)

	// One that serves goes on.
	writeTestFile(t, filepath.Join(operator, configFile), "model = [")
	if err := p.Restart(); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("a restart gave %v", err)
	}
	if s := p.Status(); s.State != StateReady {
		t.Errorf("it is %+v", s)
	}
}

// Each instance has a home of its own, which is removed with it.
func TestHomesOfInstances(t *testing.T) {
	operator := t.TempDir()
	writeTestFile(t, filepath.Join(operator, configFile), `model = "one"`)
	p := startProcess(t, "", func(cfg *Config) { cfg.Home = operator })
	p.times.drainGrace = 0
	awaitState(t, p, StateReady)
	homes := func() (paths []string) {
		for _, name := range entries(t, p.private.Load().path) {
			if strings.HasPrefix(name, "home-") {
				paths = append(paths, filepath.Join(p.private.Load().path, name, "codex", configFile))
			}
		}
		return paths
	}
	first := homes()
	if len(first) != 1 {
		t.Fatalf("there are the homes %q", first)
	}
	writeTestFile(t, filepath.Join(operator, configFile), `model = "two"`)
	must.OK(t, p.Restart())
	await(t, p, "replaced", func(s Status) bool { return s.Replacements == 1 && s.Draining == 0 })
	second := homes()
	if len(second) != 1 || second[0] == first[0] {
		t.Fatalf("after the home %q there are %q", first, second)
	}
	if content, err := os.ReadFile(second[0]); err != nil || !strings.Contains(string(content), `model = "two"`) {
		t.Errorf("it has %s, %v", content, err)
	}
	private := p.private.Load().path
	p.Stop()
	if _, err := os.Stat(private); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the private directory is left: %v", err)
	}
}

// TestHomeOfHungProcess checks that the home of an app-server that hangs and is killed is removed.
func TestHomeOfHungProcess(t *testing.T) {
	p := newTestProcess(t, "", func(cfg *Config) { cfg.Home = t.TempDir() })
	p.times.heartbeat = codexrpc.Heartbeat{Every: 50 * time.Millisecond, Wait: time.Second, MaxMissed: 2}
	p.Start()
	before := awaitState(t, p, StateReady)
	if err := syscall.Kill(before.PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	await(t, p, "started again", func(s Status) bool { return s.Restarts > 0 && s.State == StateReady })
	if homes, err := filepath.Glob(filepath.Join(p.private.Load().path, "home-*")); len(homes) != 1 || err != nil {
		t.Errorf("there are the homes %q, %v", homes, err)
	}
}
