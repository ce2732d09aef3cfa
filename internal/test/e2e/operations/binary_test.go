package operations

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

// run starts the built Caddy.
func run(t *testing.T) *e2e.Running {
	t.Helper()
	return runWith(t, "")
}

// runWith starts the built Caddy with further options in its codex block.
func runWith(t *testing.T, options string) *e2e.Running {
	t.Helper()
	s := e2e.NewUnstarted(t)
	r := s.RunFile(s.Caddyfile("api_key " + e2e.SecretKey + "\n" + options))
	r.WaitUp()
	return r
}

// TestBuiltCaddyStops checks that a terminated Caddy waits for its stream and then exits
// with codex, and that its log has neither keys nor content.
func TestBuiltCaddyStops(t *testing.T) {
	r := runWith(t, "drain_timeout 1h")
	ctx, leave := e2e.ContextWithCancel(t)
	defer leave()
	if response, text := r.Post(e2e.ChatBody("say:PRIVATE-PROMPT", nil), e2e.Bearer("WRONG-KEY")); response.StatusCode != http.StatusUnauthorized {
		t.Errorf("a wrong key: %d %s", response.StatusCode, text)
	}
	response := r.Hanging(ctx)
	defer response.Body.Close()
	pids := e2e.Codexes(r.Cmd.Process.Pid)
	if len(pids) == 0 {
		t.Fatal("no codex is running")
	}
	r.Signal(syscall.SIGTERM, "SIGTERM")
	if !e2e.Alive(pids[0]) || r.Model.Stats().Open != 1 {
		t.Error("the stream was cut")
	}
	leave()
	if err := r.Wait(); err != nil {
		t.Error("Caddy's exit:", err)
	}
	e2e.WaitFor(t, "codex to end", e2e.AllGone(pids))
	if !strings.Contains(r.Log.String(), `"msg":"the API key is missing or wrong"`) || !strings.Contains(r.Log.String(), `"client_ip":"127.0.0.1"`) {
		t.Error("the wrong key is not in the log")
	}
	for _, secret := range []string{e2e.SecretKey, "WRONG-KEY", "PRIVATE-PROMPT"} {
		if strings.Contains(r.Log.String(), secret) {
			t.Errorf("%s is in the log", secret)
		}
	}
}

// TestBuiltCaddyKilled checks that codex exits when Caddy is killed, and that the next
// start removes the temporary files.
func TestBuiltCaddyKilled(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	r := run(t)
	ctx, leave := e2e.ContextWithCancel(t)
	defer leave()
	response := r.Hanging(ctx)
	defer response.Body.Close()
	pids := e2e.Codexes(r.Cmd.Process.Pid)
	if err := r.Cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, response.Body); err == nil {
		t.Error("the stream ended as if it were complete")
	}
	e2e.WaitFor(t, "codex to end", e2e.AllGone(pids))
	left := privateDirs(t)
	_ = r.Wait() // fails because it was killed
	r.Start()
	e2e.WaitFor(t, "the directory of the one before to be removed", func() bool {
		now := privateDirs(t)
		return len(left) == 1 && len(now) == 1 && now[0] != left[0]
	})
}

// TestBuiltCaddyValidates checks that validating a configuration starts no process and
// creates no file.
func TestBuiltCaddyValidates(t *testing.T) {
	ownTemp(t)
	dir := t.TempDir()
	mark := filepath.Join(dir, "started")
	program := filepath.Join(dir, "codex")
	if err := os.WriteFile(program, []byte("#!/bin/sh\ntouch "+mark+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "Caddyfile")
	if err := os.WriteFile(config, []byte(fmt.Sprintf("http://%s {\n\tcodex {\n\t\tapp_server %s app-server\n\t}\n}\n", e2e.FreeAddr(t), program)), 0o600); err != nil {
		t.Fatal(err)
	}
	validate := exec.CommandContext(e2e.Context(t), e2e.BuiltCaddy(t), "validate", "--adapter", "caddyfile", "--config", config)
	if out, err := validate.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("validate has started the app-server")
	}
	if dirs := privateDirs(t); len(dirs) != 0 {
		t.Errorf("validate has made %q", dirs)
	}
	modules, err := exec.CommandContext(e2e.Context(t), e2e.BuiltCaddy(t), "list-modules").Output()
	if err != nil || !strings.Contains(string(modules), "http.handlers.codex\n") {
		t.Errorf("%v\n%s", err, modules)
	}
}
