package e2e

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/codexhome"
	"github.com/caddy-codex/caddy-codex/internal/test/logbook"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// CaddyBinary is the Caddy with this module of `make race`, which looks for races, or `make build`.
var CaddyBinary = cmp.Or(os.Getenv("BUILT_CADDY"), "../../../../build/caddy")

// BuiltCaddy returns the whole path of CaddyBinary.
func BuiltCaddy(t testing.TB) string {
	t.Helper()
	path, err := filepath.Abs(CaddyBinary)
	must.OK(t, err)
	if _, err := os.Stat(path); err != nil {
		t.Fatal("this test needs the built Caddy: run `make build`:", err)
	}
	return path
}

// SecretKey must not be in a log.
const SecretKey = "sk-that-nobody-may-read"

// Running is a Caddy process.
type Running struct {
	*Site
	Cmd    *exec.Cmd
	config string   // path of its Caddyfile
	Dir    string   // its home and data directory
	env    []string // additional environment variables
	Log    *logbook.Book
}

// NewUnstarted returns a site whose Caddy is still to be started, if there is to be one.
func NewUnstarted(t testing.TB) *Site {
	t.Helper()
	return unstarted(t, codexhome.Options{})
}

// RunFile starts the built Caddy with a Caddyfile and variables, and does not wait for readiness.
func (s *Site) RunFile(caddyfile string, env ...string) *Running {
	s.T.Helper()
	r := &Running{Site: s, config: filepath.Join(s.T.TempDir(), "Caddyfile"), Dir: s.T.TempDir(), env: env, Log: new(logbook.Book)}
	r.Write(caddyfile)
	r.launch()
	return r
}

// Start starts it again.
func (r *Running) Start() {
	r.T.Helper()
	r.launch()
	r.WaitUp()
}

// launch starts the process. The end of the test kills it.
func (r *Running) launch() {
	r.T.Helper()
	cmd := exec.Command(BuiltCaddy(r.T), "run", "--adapter", "caddyfile", "--config", r.config)
	cmd.Stderr = r.Log
	cmd.WaitDelay = Deadline // for what is left of a Codex that has its standard error
	cmd.Env = append(append(os.Environ(), "HOME="+r.Dir, "XDG_DATA_HOME="+r.Dir), r.env...)
	must.OK(r.T, cmd.Start())
	r.T.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // fails if it was waited for already
		for _, report := range racesIn(r.Log.String()) {
			r.T.Errorf("Caddy's race detector found:\n%s", report)
		}
	})
	r.Cmd = cmd
}

// WaitUp waits until Caddy serves and its app-server is ready.
func (r *Running) WaitUp() {
	r.T.Helper()
	WaitFor(r.T, "the built Caddy", func() bool {
		response, err := http.Get(r.URL + "/readyz")
		if err != nil {
			return false
		}
		_ = response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
}

// Write writes the Caddyfile.
func (r *Running) Write(config string) {
	r.T.Helper()
	config = strings.Replace(config, "admin off", "admin off\ndebug", 1)
	must.OK(r.T, os.WriteFile(r.config, []byte(config), 0o600))
}

// Signal sends the process a signal and waits until it is in the log.
func (r *Running) Signal(signal syscall.Signal, name string) {
	r.T.Helper()
	must.OK(r.T, r.Cmd.Process.Signal(signal))
	WaitFor(r.T, "Caddy to have heard it", func() bool { return strings.Contains(r.Log.String(), name) })
}

// Hanging opens a stream that does not end.
func (r *Running) Hanging(ctx context.Context) *http.Response {
	r.T.Helper()
	return r.Open(ctx, "say:PRIVATE-PROMPT; hang")
}

// Open opens a stream and waits until it has begun.
func (r *Running) Open(ctx context.Context, prompt string) *http.Response {
	r.T.Helper()
	response, err := r.Chat(ctx, ChatBody(prompt, map[string]any{"stream": true}), Bearer(SecretKey))
	must.OK(r.T, err)
	begun := ReadUntil(r.T, response.Body, "data: ")
	response.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(strings.NewReader(begun), response.Body), response.Body}
	return response
}

// End ends the process with SIGTERM.
func (r *Running) End() {
	r.T.Helper()
	must.OK(r.T, r.Cmd.Process.Signal(syscall.SIGTERM))
	if err := r.Wait(); err != nil {
		r.T.Fatal("Caddy's exit:", err)
	}
}

// Wait waits for the process to end, like [exec.Cmd.Wait]. After [Deadline] it kills it and fails.
func (r *Running) Wait() error {
	end := time.AfterFunc(Deadline, func() {
		r.T.Error("Caddy does not exit")
		_ = r.Cmd.Process.Kill()
	})
	defer end.Stop()
	return r.Cmd.Wait()
}
