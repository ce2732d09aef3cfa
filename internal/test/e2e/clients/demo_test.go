package clients

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/logbook"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/needs"
	"github.com/caddy-codex/caddy-codex/internal/test/rig"
)

// demo is a running demo below a shell, which stands for make.
type demo struct {
	t     *testing.T
	shell *exec.Cmd
	pid   int // of the demo
	port  string
	dir   string
	out   *logbook.Book
	ended chan struct{} // closed when the shell has ended
}

func buildDemo(t *testing.T) string {
	t.Helper()
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		needs.Missing(t, "processes are looked at in /proc: run this test on Linux")
	}
	path := filepath.Join(t.TempDir(), "demo")
	// Without debug information, which takes the linker longer than all else.
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-ldflags", "-s -w", "-o", path, "../../cmd/demo").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

func freePort(t *testing.T) string {
	_, port, err := net.SplitHostPort(e2e.FreeAddr(t))
	must.OK(t, err)
	return port
}

// startDemo starts a demo on this port, without a login.
func startDemo(t *testing.T, program, dir, port string) *demo {
	t.Helper()
	d := &demo{t: t, port: port, dir: dir, out: new(logbook.Book), ended: make(chan struct{})}
	d.shell = exec.Command("sh", "-c", `"$@"; exit $?`, "sh", program, "-codex", e2e.CodexBinary, "-port", port, "-dir", dir)
	d.shell.Env = append(os.Environ(), "HOME="+dir, "CODEX_HOME=")
	d.shell.Stdout, d.shell.Stderr = d.out, d.out
	must.OK(t, d.shell.Start())
	go func() {
		defer close(d.ended)
		_ = d.shell.Wait()
	}()
	t.Cleanup(func() {
		for _, pid := range append(rig.Below(d.shell.Process.Pid), d.shell.Process.Pid) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		<-d.ended
	})
	return d
}

// WaitReady waits until the demo has said where it is.
func (d *demo) waitReady() {
	d.t.Helper()
	e2e.WaitFor(d.t, "the demo", func() bool { return strings.Contains(d.out.String(), "Ctrl-C ends it") })
	for _, pid := range rig.Below(d.shell.Process.Pid) {
		if rig.Name(pid) == "demo" {
			d.pid = pid
			return
		}
	}
	d.t.Fatal("there is no demo: ", d.out)
}

func TestDemo(t *testing.T) {
	program := buildDemo(t)
	t.Run("answers", func(t *testing.T) { testDemoAnswers(t, program) })
	t.Run("signs in", func(t *testing.T) { testDemoSignIn(t, program) })
	t.Run("ends", func(t *testing.T) { testDemoEnds(t, program) })
}

// testDemoEnds: nothing is left of the demo, whatever ends it, while a client has a stream.
func testDemoEnds(t *testing.T, program string) {
	// Below nohup the demo would ignore HUP as well, if this process did.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	for name, c := range map[string]struct {
		parent bool // the shell gets the signal
		signal syscall.Signal
		keeps  bool // its folder
	}{
		"Ctrl-C":             {signal: syscall.SIGINT},
		"TERM":               {signal: syscall.SIGTERM},
		"closed terminal":    {signal: syscall.SIGHUP},
		"make is killed":     {parent: true, signal: syscall.SIGKILL},
		"the demo is killed": {signal: syscall.SIGKILL, keeps: true},
	} {
		t.Run(name, func(t *testing.T) {
			port := freePort(t)
			dir := t.TempDir()
			d := startDemo(t, program, dir, port)
			d.waitReady()
			all := append(rig.Below(d.shell.Process.Pid), d.shell.Process.Pid)
			if len(all) < 3 {
				t.Fatalf("there are %v: codex is missing", all)
			}
			stream, err := http.Post("http://localhost:"+port+"/v1/chat/completions", "application/json",
				strings.NewReader(`{"model":"default","stream":true,"messages":[{"role":"user","content":"say:x; hang"}]}`))
			must.OK(t, err)
			defer stream.Body.Close()
			target := d.pid
			if c.parent {
				target = d.shell.Process.Pid
			}
			must.OK(t, syscall.Kill(target, c.signal))
			e2e.WaitFor(t, "the end of all processes", func() bool {
				for _, pid := range all {
					if rig.Name(pid) != "" {
						return false
					}
				}
				return true
			})
			_, err = os.Stat(filepath.Join(dir, "demo-"+port))
			if errors.Is(err, fs.ErrNotExist) == c.keeps {
				t.Errorf("the folder: %v", err)
			}
			if c.keeps { // the next demo begins with an empty one
				startDemo(t, program, dir, port).waitReady()
			}
		})
	}
}

// testDemoAnswers checks what the demo says at the end of its start: that the line to
// paste works, and that it writes to its folder only. A second demo on its port is refused.
func testDemoAnswers(t *testing.T, program string) {
	port, dir := freePort(t), t.TempDir()
	d := startDemo(t, program, dir, port)
	d.waitReady()
	said := d.out.String()
	for _, want := range []string{"the built-in demo model answers: write \"log in\" in a chat, or run `", " login`, to use your ChatGPT plan\n", "] ready\n", "http://localhost:" + port + "/codex/\n", "http://localhost:" + port + "/v1\n"} {
		if !strings.Contains(said, want) {
			t.Errorf("it does not say %q: %s", want, said)
		}
	}
	_, after, _ := strings.Cut(said, "curl ")
	line, _, _ := strings.Cut(after, "\n")
	answer, err := exec.CommandContext(e2e.Context(t), "sh", "-c", "curl -sS --max-time 60 "+line).CombinedOutput()
	if err != nil || !strings.Contains(string(answer), "built-in demo model") {
		t.Errorf("%v: %s", err, answer)
	}
	d.testAnswers()
	for _, path := range []string{"/models", "/api/tags"} { // of a base URL without /v1, and of Ollama's API
		if answer, err := exec.Command("curl", "--fail", "--silent", "--max-time", "60", "http://localhost:"+port+path).CombinedOutput(); err != nil || !strings.Contains(string(answer), "gpt-") {
			t.Errorf("%s: %v: %s", path, err, answer)
		}
	}
	preflight, err := http.NewRequestWithContext(e2e.Context(t), http.MethodOptions, "http://localhost:"+port+"/v1/chat/completions", nil)
	must.OK(t, err)
	preflight.Header = http.Header{"Origin": {"app://obsidian.md"}, "Access-Control-Request-Method": {"POST"}}
	response, err := http.DefaultClient.Do(preflight)
	must.OK(t, err)
	_ = response.Body.Close()
	if got := response.Header.Get("Access-Control-Allow-Origin"); got != "app://obsidian.md" {
		t.Errorf("Obsidian is allowed as %q", got)
	}
	second, err := exec.CommandContext(e2e.Context(t), program, "-codex", e2e.CodexBinary, "-port", port, "-dir", dir).CombinedOutput()
	if err == nil || !strings.Contains(string(second), fmt.Sprintf("port %s is in use", port)) || strings.Contains(string(second), "ready") {
		t.Errorf("%v: %s", err, second)
	}
	if _, err := os.Stat(filepath.Join(dir, "demo-"+port, "data", "caddy", "instance.uuid")); err != nil {
		t.Errorf("a refused demo has removed the folder of the first: %v", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("%v, %v: it writes beside its folder", entries, err)
	}
	if strings.Contains(d.out.String(), "INFO") || strings.Contains(d.out.String(), "WARN") {
		t.Errorf("it logs: %s", d.out)
	}
}
