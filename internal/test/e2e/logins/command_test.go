package logins

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/caddy-codex/caddy-codex/internal/test/codexhome"
	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

func runCommand(input string, args ...string) (output string, err error) {
	root := &cobra.Command{Use: "codex", SilenceUsage: true, SilenceErrors: true}
	caddycmd.Commands()["codex"].CobraFunc(root)
	var text bytes.Buffer
	root.SetIn(strings.NewReader(input))
	root.SetOut(&text)
	root.SetErr(&text)
	root.SetArgs(args)
	err = root.Execute()
	return text.String(), err
}

func configFile(t *testing.T, options string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "Caddyfile")
	e2e.WriteFile(t, path, "{\nadmin off\n}\nhttp://127.0.0.1:1 {\ncodex {\n"+options+"\n}\n}\n")
	return path
}

// shortCheck is the timeout of a check that takes all of it: Codex goes on trying a provider.
const shortCheck = 4 * time.Second

// TestCheckCommand: `caddy codex check` says what is wrong with app-servers and what to do.
func TestCheckCommand(t *testing.T) {
	e2e.OwnTemp(t)
	loginless := t.TempDir()
	e2e.WriteFile(t, filepath.Join(loginless, "config.toml"), "model_provider = \"p\"\n[model_providers.p]\nname = \"p\"\nbase_url = \"http://127.0.0.1:1/v1\"\nrequires_openai_auth = true\n")
	unreachable := t.TempDir()
	e2e.WriteHome(t, unreachable, "http://127.0.0.1:1/v1", codexhome.Options{})
	block := func(home string) string {
		return "app_server " + e2e.CodexBinary + " app-server {\nhome " + home + "\n}\n"
	}
	fine := newAccount(t, nil)
	who := "the provider needs no login"
	if fine.Login != nil {
		who = "signed in at ChatGPT as " + fine.Login.Email + ", plan pro"
	}
	for name, c := range map[string]struct {
		options string
		args    []string
		good    bool
		want    []string
	}{
		"fine":          {fine.block, nil, true, []string{"app_server 1 (", "ok: Codex 0.", "ok: " + who, "ok: the model default has answered"}},
		"one of two":    {"app_server no-such-codex app-server\n" + fine.block, []string{"2"}, true, []string{"app_server 2 (", "has answered"}},
		"both":          {"app_server no-such-codex app-server\n" + fine.block, nil, false, []string{"failed: exec: \"no-such-codex\"", "npm install -g @openai/codex", "has answered", "1 of 2 app-servers"}},
		"no login":      {block(loginless), nil, false, []string{"failed: codex is not logged in", "run `codex login`", "CODEX_HOME=" + loginless}},
		"refused":       {newAccount(t, signedOut).block, nil, false, []string{"ok: Codex 0.", "failed: the provider refuses the login", "sign in again with `caddy codex login`"}},
		"spent":         {newAccount(t, spentPlan).block, nil, false, []string{"failed: the plan is spent; it resets at 20"}},
		"no network":    {block(unreachable), []string{"--timeout", shortCheck.String()}, false, []string{"failed: the provider fails or cannot be reached; check the network"}},
		"unknown model": {newAccount(t, scriptedmodel.HTTPError{Status: http.StatusNotFound}).block, []string{"--model", "gpt-none"}, false, []string{"Choose another one with --model"}},
		"newer":         {strings.Replace(fine.block, e2e.CodexBinary, newerCodex(t), 1), nil, true, []string{"ok: Codex 99.0.0 runs", "warning: Codex 99.0.0 is newer than what was tested (0.", "has answered"}},
		"which":         {fine.block, []string{"7"}, false, []string{`no app_server "7"`, "app_server 1 ("}},
		"in no time":    {fine.block, []string{"--timeout", "1ns"}, false, []string{"not ready in time"}},
	} {
		t.Run(name, func(t *testing.T) {
			check := func(args ...string) (string, error) {
				return runCommand("", append([]string{"check", "--config", configFile(t, c.options)}, args...)...)
			}
			output, err := check(c.args...)
			// A busy machine may take longer to start the app-server.
			for wait := shortCheck; name == "no network" && strings.Contains(output, "not ready in time") && wait < e2e.Deadline; {
				wait *= 2
				output, err = check("--timeout", wait.String())
			}
			if (err == nil) != c.good {
				t.Errorf("error %v", err)
			}
			if err != nil {
				output += err.Error()
			}
			for _, want := range c.want {
				if !strings.Contains(output, want) {
					t.Errorf("no %q in\n%s", want, output)
				}
			}
			if strings.Contains(output, "http://") {
				t.Errorf("it has an address: %s", output)
			}
		})
	}
}

// TestLoginCommand checks that `caddy codex login` signs in the app-server that is named, in
// its CODEX_HOME, and that a Caddy that runs uses the login at once.
func TestLoginCommand(t *testing.T) {
	e2e.OwnTemp(t)
	s, admin := newLoginSite(t)
	other := filepath.Join(t.TempDir(), "not", "there", "yet")
	config := filepath.Join(t.TempDir(), "Caddyfile")
	e2e.WriteFile(t, config, strings.Replace(s.Caddyfile(s.AppServer()+"\napp_server "+e2e.CodexBinary+" app-server {\nhome "+other+"\n}"), "admin off", "admin "+admin.Addr, 1))
	login := func(key, which string) string {
		t.Helper()
		output, err := runCommand(key, "login", which, "--with-api-key", "--config", config)
		if err != nil {
			t.Fatal(err, output)
		}
		return output
	}
	// The configuration that runs has an app-server like the first one, but for a line.
	config1 := strings.Replace(s.Caddyfile(s.AppServer()), "admin off", "admin "+admin.Addr, 1)
	s.Load(config1)
	for i, which := range []string{"1", s.Home} {
		key := fmt.Sprintf("sk-%d", i)
		if output := login(key, which); !strings.Contains(output, "Signing in app_server 1") || i > 0 && !strings.Contains(output, "uses it now") {
			t.Error(output)
		}
		e2e.WaitFor(t, "the app-server with the new login", func() bool {
			return admin.Status().AppServers[0].State == "ready" && authorization(s) == "Bearer "+key
		})
	}
	if output := login("sk-other", "2"); !strings.Contains(output, "has no such app-server") {
		t.Error(output)
	}
	if text, err := os.ReadFile(filepath.Join(other, "auth.json")); err != nil || !strings.Contains(string(text), "sk-other") {
		t.Errorf("%s %v", text, err)
	}
	if output, err := runCommand("", "login", "--config", config); err == nil || !strings.Contains(err.Error(), "which app_server?") {
		t.Error(output, err)
	}
	if output, err := runCommand("", "status", "--config", config); err != nil || !strings.Contains(output, "login: ") || !strings.Contains(output, ": ready") || !strings.Contains(output, "\n  context windows: ") || !strings.Contains(output, " gpt-5.5 272000") {
		t.Error(output, err)
	}
}
