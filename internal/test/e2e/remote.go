package e2e

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/codexrpc/appserver"
	"github.com/caddy-codex/caddy-codex/internal/test/needs"
)

// FleetToken is the token of the app-servers in these tests.
const FleetToken = "a-secret-of-the-fleet"

// Guarded returns the arguments of an app-server that requires FleetToken.
func Guarded(t *testing.T) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(FleetToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"--ws-auth", "capability-token", "--ws-token-file", path}
}

// Remote returns an app_server block that connects.
func Remote(address, token string) string {
	block := "app_server {\nconnect " + address + "\nstart_timeout " + Deadline.String() + "\n"
	if token != "" {
		block += "token " + token + "\n"
	}
	return block + "}"
}

// Listen starts an app-server that listens, and returns the address that it prints. It
// runs until stop is called.
func (s *Site) Listen(listen string, args ...string) (address string, stop func()) {
	s.T.Helper()
	if s.Plan != nil { // its home is not a private one
		s.Plan.Expect("/backend-api/ps/", "/backend-api/codex/analytics-events/", "/backend-api/plugins/", "/backend-api/connectors/")
	}
	cmd := exec.Command(CodexBinary, append([]string{"app-server", "--listen", listen}, args...)...)
	cmd.Env = append(os.Environ(), "CODEX_HOME="+s.Home, "NO_COLOR=1")
	cmd.Dir = s.T.TempDir()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		s.T.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.T.Fatal(err)
	}
	said := make(chan string, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		lines := bufio.NewScanner(stderr)
		for lines.Scan() {
			if _, at, ok := strings.Cut(lines.Text(), "listening on: "); ok {
				said <- strings.TrimSpace(at)
			}
		}
		if err := lines.Err(); err != nil && !errors.Is(err, os.ErrClosed) {
			s.T.Error("stderr of the app-server:", err)
		}
	}()
	stop = func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-ended
		_ = cmd.Wait()
	}
	s.T.Cleanup(stop)
	if socket, ok := strings.CutPrefix(listen, "unix://"); ok {
		WaitFor(s.T, "the socket", func() bool {
			_, err := os.Stat(socket)
			return err == nil
		})
		return "unix/" + socket, stop
	}
	select {
	case address = <-said:
	case <-time.After(Deadline):
		s.T.Fatal("it does not say where it listens")
	}
	return address, stop
}

// Process starts a process, which the end of the test stops.
func (s *Site) Process(cfg appserver.Config) *appserver.Process {
	s.T.Helper()
	cfg.Client = codexrpc.ClientInfo{Name: "e2e", Version: "1"}
	cfg.StartTimeout = Deadline
	p := appserver.New(cfg, nil)
	s.T.Cleanup(p.Stop)
	p.Start()
	return p
}

// Catalogue writes the catalogue with the filter in docs/remote.md.
func (s *Site) Catalogue() (path string) {
	s.T.Helper()
	jq, err := FindJQ()
	if err != nil {
		needs.Missing(s.T, "the command of docs/remote.md needs jq: run `make deps`, or install it")
	}
	list := exec.CommandContext(Context(s.T), CodexBinary, "debug", "models", "-c", `cli_auth_credentials_store="ephemeral"`)
	list.Env = append(os.Environ(), "CODEX_HOME="+s.Home)
	printed, err := list.Output()
	if err != nil {
		s.T.Fatal(err)
	}
	change := exec.CommandContext(Context(s.T), jq, documented(s.T, "../../../../docs/remote.md", "jq '", "'"))
	change.Stdin = strings.NewReader(string(printed))
	changed, err := change.Output()
	if err != nil {
		s.T.Fatal(err)
	}
	path = filepath.Join(s.T.TempDir(), "models.json")
	if err := os.WriteFile(path, changed, 0o600); err != nil {
		s.T.Fatal(err)
	}
	return path
}

// FindJQ returns jq on the PATH, or else the one of `make deps`.
func FindJQ() (string, error) {
	if path, err := exec.LookPath("jq"); err == nil {
		return path, nil
	}
	local, err := filepath.Abs("../../../../.cache/gojq")
	if err != nil {
		return "", err
	}
	return exec.LookPath(local)
}

// documented returns the text of a document between two marks.
func documented(t testing.TB, path, before, after string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), before)
	found, _, ended := strings.Cut(rest, after)
	if !ok || !ended {
		t.Fatalf("%s has nothing between %q and %q", path, before, after)
	}
	return found
}
