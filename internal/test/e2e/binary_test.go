package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/codexhome"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// builtCaddy is the Caddy that xcaddy has built with this module.
func builtCaddy(t testing.TB) string {
	t.Helper()
	path, err := filepath.Abs("../../../build/caddy")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatal("this test needs the built Caddy: run `make build`:", err)
	}
	return path
}

// secretKey must not be in a log.
const secretKey = "sk-that-nobody-may-read"

// running is a Caddy process.
type running struct {
	*site
	cmd    *exec.Cmd
	config string   // path of its Caddyfile
	dir    string   // its home and data directory
	env    []string // additional environment variables
	log    *lockedBuffer
}

// run starts the built Caddy.
func run(t *testing.T) *running {
	t.Helper()
	return runWith(t, "")
}

// newUnstarted returns a site for a Caddy that is still to be started.
func newUnstarted(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, home: t.TempDir(), addr: freeAddr(t), model: scriptedmodel.New(scriptedmodel.Options{})}
	s.url = "http://" + s.addr
	server := httptest.NewServer(s.model)
	t.Cleanup(server.Close)
	t.Cleanup(s.model.Close)
	writeHome(t, s.home, server.URL+"/v1", codexhome.Options{})
	return s
}

// runWith starts the built Caddy with further options in its codex block.
func runWith(t *testing.T, options string) *running {
	t.Helper()
	s := newUnstarted(t)
	r := s.runFile(s.caddyfile("api_key " + secretKey + "\n" + options))
	r.waitUp()
	return r
}

// runFile starts the built Caddy with a Caddyfile and environment variables, without
// waiting until it is ready.
func (s *site) runFile(caddyfile string, env ...string) *running {
	s.t.Helper()
	r := &running{site: s, config: filepath.Join(s.t.TempDir(), "Caddyfile"), dir: s.t.TempDir(), env: env, log: new(lockedBuffer)}
	r.write(caddyfile)
	r.launch()
	return r
}

// start starts it again.
func (r *running) start() {
	r.t.Helper()
	r.launch()
	r.waitUp()
}

// launch starts the process. The end of the test kills it.
func (r *running) launch() {
	r.t.Helper()
	cmd := exec.Command(builtCaddy(r.t), "run", "--adapter", "caddyfile", "--config", r.config)
	cmd.Stderr = r.log
	cmd.Env = append(append(os.Environ(), "HOME="+r.dir, "XDG_DATA_HOME="+r.dir), r.env...)
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // fails if it was waited for already
	})
	r.cmd = cmd
}

// waitUp waits until Caddy serves and its app-server is ready.
func (r *running) waitUp() {
	r.t.Helper()
	waitFor(r.t, "the built Caddy", func() bool {
		response, err := http.Get(r.url + "/readyz")
		if err != nil {
			return false
		}
		_ = response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
}

// write writes the Caddyfile.
func (r *running) write(config string) {
	r.t.Helper()
	config = strings.Replace(config, "admin off", "admin off\ndebug", 1)
	if err := os.WriteFile(r.config, []byte(config), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// signal sends the process a signal and waits until it is in the log.
func (r *running) signal(signal syscall.Signal, name string) {
	r.t.Helper()
	if err := r.cmd.Process.Signal(signal); err != nil {
		r.t.Fatal(err)
	}
	waitFor(r.t, "Caddy to have heard it", func() bool { return strings.Contains(r.log.String(), name) })
}

// hanging opens a stream that does not end.
func (r *running) hanging(ctx context.Context) *http.Response {
	r.t.Helper()
	return r.open(ctx, "say:PRIVATE-PROMPT; hang")
}

// open opens a stream and reads its first line.
func (r *running) open(ctx context.Context, prompt string) *http.Response {
	r.t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+"/v1/chat/completions",
		strings.NewReader(chatBody(prompt, map[string]any{"stream": true})))
	if err != nil {
		r.t.Fatal(err)
	}
	request.Header = bearer(secretKey)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		r.t.Fatal(err)
	}
	if line, err := bufio.NewReader(response.Body).ReadString('\n'); err != nil || !strings.HasPrefix(line, "data: ") {
		r.t.Fatalf("%q, %v", line, err)
	}
	return response
}

// codexes returns the processes that a Caddy has started.
func codexes(caddy int) []int {
	var pids []int
	for _, child := range children() {
		pid, _, _ := strings.Cut(child, " ")
		if n, err := strconv.Atoi(pid); err == nil && n != caddy {
			pids = append(pids, n)
		}
	}
	return pids
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

func allGone(pids []int) func() bool {
	return func() bool {
		for _, pid := range pids {
			if alive(pid) {
				return false
			}
		}
		return true
	}
}

// TestBuiltCaddyStops checks that a terminated Caddy waits for its stream and then exits
// with codex, and that its log has neither keys nor content.
func TestBuiltCaddyStops(t *testing.T) {
	r := runWith(t, "drain_timeout 1h")
	ctx, leave := contextFor(t)
	defer leave()
	if response, text := r.post(chatBody("say:PRIVATE-PROMPT", nil), bearer("WRONG-KEY")); response.StatusCode != http.StatusUnauthorized {
		t.Errorf("a wrong key: %d %s", response.StatusCode, text)
	}
	response := r.hanging(ctx)
	defer response.Body.Close()
	pids := codexes(r.cmd.Process.Pid)
	if len(pids) == 0 {
		t.Fatal("no codex is running")
	}
	r.signal(syscall.SIGTERM, "SIGTERM")
	if !alive(pids[0]) || r.model.Stats().Open != 1 {
		t.Error("the stream was cut")
	}
	leave()
	if err := r.cmd.Wait(); err != nil {
		t.Error("Caddy's exit:", err)
	}
	waitFor(t, "codex to end", allGone(pids))
	if !strings.Contains(r.log.String(), `"msg":"the API key is missing or wrong"`) || !strings.Contains(r.log.String(), `"client_ip":"127.0.0.1"`) {
		t.Error("the wrong key is not in the log")
	}
	for _, secret := range []string{secretKey, "WRONG-KEY", "PRIVATE-PROMPT"} {
		if strings.Contains(r.log.String(), secret) {
			t.Errorf("%s is in the log", secret)
		}
	}
}

// TestBuiltCaddyKilled checks that codex exits when Caddy is killed, and that the next
// start removes the temporary files.
func TestBuiltCaddyKilled(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	r := run(t)
	ctx, leave := contextFor(t)
	defer leave()
	response := r.hanging(ctx)
	defer response.Body.Close()
	pids := codexes(r.cmd.Process.Pid)
	if err := r.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, response.Body); err == nil {
		t.Error("the stream ended as if it were complete")
	}
	waitFor(t, "codex to end", allGone(pids))
	left := privateDirs(t)
	_ = r.cmd.Wait() // fails because it was killed
	r.start()
	waitFor(t, "the directory of the one before to be removed", func() bool {
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
	if err := os.WriteFile(config, []byte(fmt.Sprintf("http://%s {\n\tcodex {\n\t\tapp_server %s app-server\n\t}\n}\n", freeAddr(t), program)), 0o600); err != nil {
		t.Fatal(err)
	}
	validate := exec.Command(builtCaddy(t), "validate", "--adapter", "caddyfile", "--config", config)
	if out, err := validate.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("validate has started the app-server")
	}
	if dirs := privateDirs(t); len(dirs) != 0 {
		t.Errorf("validate has made %q", dirs)
	}
	modules, err := exec.Command(builtCaddy(t), "list-modules").Output()
	if err != nil || !strings.Contains(string(modules), "http.handlers.codex\n") {
		t.Errorf("%v\n%s", err, modules)
	}
}
