package main

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/needs"
)

// TestLocal: the demo, which has no key, listens on loopback only, and refuses a port in use.
func TestLocal(t *testing.T) {
	first, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	port := first.Addr().(*net.TCPAddr).Port
	if _, err := freeLoopbackAddresses(port); err == nil || !strings.Contains(err.Error(), "port "+strconv.Itoa(port)+" is in use") {
		t.Errorf("%v", err)
	}
	_ = first.Close()
	all, err := freeLoopbackAddresses(port)
	must.OK(t, err)
	for _, address := range all {
		if !net.ParseIP(address).IsLoopback() {
			t.Error(address)
		}
	}
	text := caddyfile(all, port, "/a/codex", "/a/home", "/a/data")
	if !strings.Contains(text, "bind "+strings.Join(all, " ")+"\n") || strings.Contains(text, "api_key") {
		t.Error(text)
	}
	for _, port := range []int{-1, 0, 65536} {
		if _, err := freeLoopbackAddresses(port); err == nil {
			t.Errorf("it listens on %d", port)
		}
	}
}

// machine is a PATH with these shell scripts by name, and the few tools that every machine has.
func machine(t *testing.T, programs map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for _, tool := range []string{"sh", "date", "sed", "head", "mkdir", "dirname", "grep", "sleep", "touch", "cat", "wc"} {
		path, err := exec.LookPath(tool)
		must.OK(t, err)
		must.OK(t, os.Symlink(path, filepath.Join(dir, tool)))
	}
	for name, script := range programs {
		must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script), 0o755))
	}
	return dir
}

// runScript runs scripts/run in a directory of its own, with this PATH.
func runScript(t *testing.T, port, programs string) (string, error) {
	t.Helper()
	script, err := os.ReadFile("../../../../scripts/run")
	must.OK(t, err)
	project := t.TempDir()
	must.OK(t, os.Mkdir(filepath.Join(project, "scripts"), 0o755))
	path := filepath.Join(project, "scripts", "run")
	must.OK(t, os.WriteFile(path, script, 0o755))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "0.171.0", port)
	cmd.WaitDelay = time.Second
	cmd.Env = []string{"PATH=" + programs}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestRunPort: a port that cannot be used is refused before anything is built: there is no Go.
func TestRunPort(t *testing.T) {
	curl, err := exec.LookPath("curl")
	if err != nil {
		needs.Missing(t, "the script asks the port with curl: install it")
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	programs := machine(t, map[string]string{"curl": "exec " + curl + ` "$@"`})
	check := func(port, want string) {
		t.Helper()
		if out, err := runScript(t, port, programs); err == nil || !strings.Contains(out, want) || strings.Count(out, "\n") != 1 {
			t.Errorf("port %s: %v\n%s", port, err, out)
		}
	}
	defer taken.Close()
	check(port, "port "+port+" is in use: end what uses it, or choose another one with make run PORT=")
	for _, none := range []string{"", "0", "http", "8080x", "65536", "123456"} {
		check(none, "there is no port "+none+": choose one")
	}
}

// TestRun checks what `make run` says on machines that lack something, and which codex it
// takes. The script runs in a directory of its own, with programs that only print.
func TestRun(t *testing.T) {
	const (
		recentGo = `case "$1" in env) echo go1.26.3;; build) printf '#!/bin/sh\necho demo "$@"\n' >build/demo; chmod +x build/demo;; esac`
		offline  = `case "$1" in env) echo go1.26.3;; build) echo 'go: x: Get "https://p/x": dial tcp: lookup p: no such host' >&2; exit 1;; esac`
		broken   = `case "$1" in env) echo go1.26.3;; build) echo 'main.go:1: syntax error' >&2; exit 1;; esac`
		npm      = `[ "$1" = install ] && mkdir -p .cache/codex && echo "$*" >.cache/codex/installed`
	)
	chmod, err := exec.LookPath("chmod")
	must.OK(t, err)
	chmodScript := "exec " + chmod + ` "$@"`
	for name, c := range map[string]struct {
		programs map[string]string
		ok       bool
		want     []string
	}{
		"nothing":         {nil, false, []string{"Go is missing: install Go 1.26 or newer"}},
		"an old Go":       {map[string]string{"go": "echo go1.19.2"}, false, []string{"go1.19.2 is too old: install Go 1.26"}},
		"a stuck Go":      {map[string]string{"go": "exit 1"}, false, []string{"Go 1.26 or newer is needed"}},
		"no Node":         {map[string]string{"go": recentGo}, false, []string{"Node is missing", "install Node 20"}},
		"no npm":          {map[string]string{"go": recentGo, "node": ""}, false, []string{"npm is missing"}},
		"no registry":     {map[string]string{"go": recentGo, "node": "", "npm": "exit 1"}, false, []string{"npm could not install Codex. Is the network there"}},
		"no module proxy": {map[string]string{"go": offline, "codex": "echo codex-cli 0.171.0"}, false, []string{"Go could not fetch the modules. Is the network there"}},
		"a broken build":  {map[string]string{"go": broken, "codex": "echo codex-cli 0.171.0"}, false, []string{"syntax error", "the build failed"}},
		"a codex": {map[string]string{"go": recentGo, "codex": "echo codex-cli 0.169.0", "curl": "printf 0; exit 7"}, true,
			[]string{"starting Codex 0.169.0", "demo -codex /", "-port 9000"}},
		"a newer one": {map[string]string{"go": recentGo, "codex": "echo codex-cli 1.2.0"}, true, []string{"starting Codex 1.2.0"}},
		"an old codex": {map[string]string{"go": recentGo, "codex": "echo codex-cli 0.168.9", "node": "", "npm": npm}, true,
			[]string{"is 0.168.9, which is too old (0.169 or newer", "using 0.171.0 instead", "installing Codex 0.171.0", "demo -codex .cache/codex/"}},
		"a codex that does not run": {map[string]string{"go": recentGo, "codex": "exit 1", "node": "", "npm": npm}, true,
			[]string{"does not run: using 0.171.0 instead", "demo -codex .cache/codex/"}},
		"no codex": {map[string]string{"go": recentGo, "node": "", "npm": npm}, true,
			[]string{"installing Codex 0.171.0", "starting Codex 0.171.0"}},
	} {
		t.Run(name, func(t *testing.T) {
			programs := map[string]string{"chmod": chmodScript}
			for name, text := range c.programs {
				programs[name] = text
			}
			out, err := runScript(t, "9000", machine(t, programs))
			if (err == nil) != c.ok {
				t.Errorf("%v", err)
			}
			for _, want := range c.want {
				if !strings.Contains(out, want) {
					t.Errorf("there is no %q in\n%s", want, out)
				}
			}
			if !c.ok && strings.Count(out, "make run:") != 1 {
				t.Errorf("not one line of what to do:\n%s", out)
			}
		})
	}
}
