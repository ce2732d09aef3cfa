package operations

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

// standIns are programs for the commands of docs/deployment.md which change the machine. HOME_OF
// is the home with the login that `codex login` would make.
var standIns = map[string]string{
	"sudo":      `[ "$1" != -u ] || shift 2; exec "$@"`,
	"npm":       `exit 0`,
	"useradd":   `while [ "$1" != --home-dir ]; do shift; done; mkdir -p "$2"`,
	"systemctl": `exit 0`,
	"codex":     `[ "$1" != login ] || exec cp -r HOME_OF "$HOME/.codex"; exec REAL "$@"`,
}

// TestSystemdSteps runs the commands of docs/deployment.md for systemd one by one, below a directory,
// with stand-ins for what changes the machine, then the service as its unit says. The key that was
// made gets an answer, is not in the log, and nobody else can read the file with its hash.
func TestSystemdSteps(t *testing.T) {
	s := e2e.NewUnstarted(t)
	dir := t.TempDir()
	bin := filepath.Join(dir, "usr/local/bin")
	replace := strings.NewReplacer(
		"/usr/local", filepath.Join(dir, "usr/local"), "/etc/", dir+"/etc/", "/var/lib/caddy-codex", filepath.Join(dir, "home"),
		"/usr/bin:/bin", os.Getenv("PATH"), "localhost:8080", s.Addr, ":8080", s.Addr, "build/caddy", e2e.BuiltCaddy(t),
	)
	for _, made := range []string{bin, filepath.Join(dir, "etc/systemd/system")} {
		if err := os.MkdirAll(made, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, script := range standIns {
		script = strings.NewReplacer("HOME_OF", s.Home, "REAL", e2e.CodexBinary).Replace(script)
		e2e.WriteFile(t, filepath.Join(bin, name), "#!/bin/sh\n"+script+"\n")
		if err := os.Chmod(filepath.Join(bin, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	shell := func(line string) (string, error) {
		cmd := exec.CommandContext(e2e.Context(t), "sh", "-c", replace.Replace(line))
		cmd.Dir = "../../../.."
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	_, page, _ := strings.Cut(e2e.ReadFile(t, "../../../../docs/deployment.md"), "## systemd\n")
	page, _, _ = strings.Cut(page, "\n## ")
	key := ""
	for _, match := range regexp.MustCompile(`(?m)^    (.+)$`).FindAllStringSubmatch(page, -1) {
		line := match[1]
		if strings.HasPrefix(line, "curl") {
			startService(t, s, dir, replace)
		}
		out, err := shell(line)
		if err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
		if made := regexp.MustCompile(`(?m)^sk-codex-\w+$`).FindString(out); made != "" {
			key = made
		}
	}
	if response, body := s.Post(e2e.ChatBody("say:It works.", nil), e2e.Bearer(key)); response.StatusCode != 200 || !strings.Contains(body, "It works.") {
		t.Errorf("%s %s", response.Status, body)
	}
	if response, _ := s.Post(e2e.ChatBody("say:no", nil), nil); response.StatusCode != 401 {
		t.Errorf("without a key: %s", response.Status)
	}
	if info, err := os.Stat(filepath.Join(dir, "home/keys")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file of keys: %v %v", info, err)
	}
	if log := e2e.ReadFile(t, filepath.Join(dir, "log")); key == "" || strings.Contains(log, key) {
		t.Errorf("the key %q is in the log", key)
	}
}

// startService runs the program of the unit with its environment, until the end of the test.
func startService(t *testing.T, s *e2e.Site, dir string, replace *strings.Replacer) {
	t.Helper()
	caddyfile := filepath.Join(dir, "etc/caddy-codex/Caddyfile")
	adapted := strings.Replace(replace.Replace(e2e.ReadFile(t, caddyfile)), s.Addr+" {", "{\n\tadmin off\n}\nhttp://"+s.Addr+" {", 1)
	e2e.WriteFile(t, caddyfile, adapted)
	env := os.Environ()
	var args []string
	for line := range strings.Lines(e2e.ReadFile(t, filepath.Join(dir, "etc/systemd/system/caddy-codex.service"))) {
		name, value, _ := strings.Cut(replace.Replace(strings.TrimSpace(line)), "=")
		switch name {
		case "Environment":
			env = append(env, value)
		case "ExecStart":
			args = strings.Fields(value)
		}
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(env, "XDG_DATA_HOME=", "XDG_CONFIG_HOME="), log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
		_ = log.Close()
		if t.Failed() {
			t.Log(e2e.ReadFile(t, log.Name()))
		}
	})
	e2e.WaitFor(t, "the service to listen", func() bool {
		conn, err := net.Dial("tcp", s.Addr)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
}
