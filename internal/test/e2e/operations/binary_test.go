package operations

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

func TestMain(m *testing.M) { os.Exit(e2e.Main(m)) }

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

// TestBuiltCaddyStops: Caddy ends with codex after its stream, and logs neither keys nor content.
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

// TestBuiltCaddyKilled: codex exits with a killed Caddy; the next start removes temporary files.
func TestBuiltCaddyKilled(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	r := run(t)
	ctx, leave := e2e.ContextWithCancel(t)
	defer leave()
	response := r.Hanging(ctx)
	defer response.Body.Close()
	pids := e2e.Codexes(r.Cmd.Process.Pid)
	must.OK(t, r.Cmd.Process.Kill())
	if _, err := io.Copy(io.Discard, response.Body); err == nil {
		t.Error("the stream ended as if it were complete")
	}
	e2e.WaitFor(t, "codex to end", e2e.AllGone(pids))
	left := e2e.PrivateDirs(t)
	_ = r.Wait() // fails because it was killed
	r.Start()
	e2e.WaitFor(t, "the directory of the one before to be removed", func() bool {
		now := e2e.PrivateDirs(t)
		return len(left) == 1 && len(now) == 1 && now[0] != left[0]
	})
}

// TestBuiltCaddyValidates: validating a configuration starts no process and creates no file.
func TestBuiltCaddyValidates(t *testing.T) {
	e2e.OwnTemp(t)
	dir := t.TempDir()
	mark := filepath.Join(dir, "started")
	program := filepath.Join(dir, "codex")
	must.OK(t, os.WriteFile(program, []byte("#!/bin/sh\ntouch "+mark+"\n"), 0o700))
	config := filepath.Join(dir, "Caddyfile")
	must.OK(t, os.WriteFile(config, []byte(fmt.Sprintf("http://%s {\n\tcodex {\n\t\tapp_server %s app-server\n\t}\n}\n", e2e.FreeAddr(t), program)), 0o600))
	validate := exec.CommandContext(e2e.Context(t), e2e.BuiltCaddy(t), "validate", "--adapter", "caddyfile", "--config", config)
	if out, err := validate.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("validate has started the app-server")
	}
	if dirs := e2e.PrivateDirs(t); len(dirs) != 0 {
		t.Errorf("validate has made %q", dirs)
	}
	modules, err := exec.CommandContext(e2e.Context(t), e2e.BuiltCaddy(t), "list-modules").Output()
	if err != nil || !strings.Contains(string(modules), "http.handlers.codex\n") {
		t.Errorf("%v\n%s", err, modules)
	}
}

// drainTimeout is the drain_timeout of these tests.
const drainTimeout = 6 * time.Second

// wait waits until the process and its children have exited.
func wait(r *e2e.Running, pids []int) {
	r.T.Helper()
	if err := r.Wait(); err != nil {
		r.T.Error("Caddy's exit:", err)
	}
	if !e2e.AllGone(pids)() {
		r.T.Error("codex outlives Caddy")
	}
}

// TestExitDrains checks that turns continue for drain_timeout when Caddy exits. Turns
// that end in that time are complete, others are interrupted with a proper end.
func TestExitDrains(t *testing.T) {
	r := runWith(t, fmt.Sprintf("drain_timeout %s", drainTimeout))
	ctx, leave := e2e.ContextWithCancel(t)
	defer leave()
	long := r.Open(ctx, "say:Half of it; hang")
	defer long.Body.Close()
	short := r.Open(ctx, "chunk=1; delay=50ms; say:0123456789012345678901234567890123456789")
	defer short.Body.Close()
	var wg sync.WaitGroup
	wg.Go(func() {
		response, text := r.Post(e2e.ChatBody("hang", nil), e2e.Bearer(e2e.SecretKey))
		if response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") == "" || !strings.Contains(text, `"code":"server_shutting_down"`) {
			t.Errorf("a whole answer: %s %v %q", response.Status, response.Header, text)
		}
	})
	r.WaitOpen(3)
	pids := e2e.Codexes(r.Cmd.Process.Pid)
	start := time.Now()
	r.Signal(syscall.SIGTERM, "SIGTERM")
	if text := r.Read(short); !strings.HasSuffix(e2e.StreamedContent(t, text), "9") || !strings.Contains(text, `"finish_reason":"stop"`) || !strings.HasSuffix(text, "data: [DONE]\n\n") {
		t.Errorf("a stream that ends in time: %q", text)
	}
	if text := r.Read(long); !strings.Contains(text, `"code":"server_shutting_down"`) || !strings.HasSuffix(text, "data: [DONE]\n\n") {
		t.Errorf("a stream that does not: %q", text)
	}
	took := time.Since(start)
	wg.Wait()
	wait(r, pids)
	if took < drainTimeout || took > drainTimeout+e2e.Deadline/2 || time.Since(start) > took+e2e.Deadline/2 {
		t.Errorf("the stream ended after %s, Caddy after %s", took, time.Since(start))
	}
}

// TestExitAfterReload: an old configuration's stream delays no exit, also if the new has no codex.
func TestExitAfterReload(t *testing.T) {
	r := runWith(t, "drain_timeout 1s")
	ctx, leave := e2e.ContextWithCancel(t)
	defer leave()
	stream := r.Hanging(ctx)
	defer stream.Body.Close()
	pids := e2e.Codexes(r.Cmd.Process.Pid)
	r.Write(r.Wrap("respond gone"))
	r.Signal(syscall.SIGUSR1, "SIGUSR1")
	e2e.WaitFor(t, "the new configuration", func() bool {
		http.DefaultClient.CloseIdleConnections()
		response, err := http.Get(r.URL + "/")
		return err == nil && r.Read(response) == "gone" // a reload may lose connections
	})
	if !e2e.Alive(pids[0]) || r.Model.Stats().Open != 1 {
		t.Error("the reload has cut the stream")
	}
	r.Signal(syscall.SIGTERM, "SIGTERM")
	if text := r.Read(stream); !strings.Contains(text, `"code":"server_shutting_down"`) || !strings.HasSuffix(text, "data: [DONE]\n\n") {
		t.Errorf("the stream: %q", text)
	}
	wait(r, pids)
}

// TestExitByGracePeriod: codex exits with Caddy if Caddy's own grace_period ends first.
func TestExitByGracePeriod(t *testing.T) {
	r := runWith(t, "drain_timeout 1h")
	config := r.Caddyfile("drain_timeout 1h\napi_key " + e2e.SecretKey)
	r.Write(strings.Replace(config, "auto_https off", "auto_https off\ngrace_period 1s", 1))
	r.Signal(syscall.SIGUSR1, "successfully reloaded")
	ctx, leave := e2e.ContextWithCancel(t)
	defer leave()
	stream := r.Hanging(ctx)
	defer stream.Body.Close()
	pids := e2e.Codexes(r.Cmd.Process.Pid)
	if len(pids) == 0 {
		t.Fatal("no codex is running")
	}
	r.Signal(syscall.SIGTERM, "SIGTERM")
	_ = r.Wait() // may fail because of the timeout
	if !e2e.AllGone(pids)() {
		t.Error("codex outlives Caddy")
	}
}
