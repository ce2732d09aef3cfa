package clients

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/needs"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

func exampleFile(t *testing.T, path string) string {
	t.Helper()
	return e2e.ReadFile(t, filepath.Join("../../../../examples", path))
}

// TestDockerfile checks that the files to copy exist, and that others are ignored.
func TestDockerfile(t *testing.T) {
	copied := 0
	for line := range strings.Lines(exampleFile(t, "docker/Dockerfile")) {
		fields := strings.Fields(line)
		if len(fields) < 3 || fields[0] != "COPY" || strings.HasPrefix(fields[1], "--from") {
			continue
		}
		for _, source := range fields[1 : len(fields)-1] {
			copied++
			if _, err := os.Stat(filepath.Join("../../../..", source)); err != nil {
				t.Error(err)
			}
		}
	}
	if copied == 0 {
		t.Error("nothing is copied")
	}
	// scripts/release puts the programs where the stage has them.
	if file := exampleFile(t, "docker/Dockerfile"); !strings.Contains(file, "--output /linux/$TARGETARCH/caddy ") || !strings.Contains(file, " /linux/${TARGETARCH}/caddy ") {
		t.Error(file)
	}
	ignored := strings.Fields(e2e.ReadFile(t, "../../../../.dockerignore"))
	for _, path := range []string{".cache", ".git", "build", "**/node_modules", "**/.env"} {
		if !slices.Contains(ignored, path) {
			t.Errorf("%s is sent to docker", path)
		}
	}
}

// TestBuiltVersion checks that Caddy shows the version of the Makefile.
func TestBuiltVersion(t *testing.T) {
	version, err := os.ReadFile("../../../../build/version")
	if errors.Is(err, fs.ErrNotExist) {
		needs.Missing(t, "this test needs the version of the built Caddy: run `make build`")
	}
	modules, listErr := exec.CommandContext(t.Context(), e2e.BuiltCaddy(t), "list-modules", "--versions").Output()
	must.OK(t, errors.Join(err, listErr))
	if want := "http.handlers.codex " + string(version); !strings.Contains(string(modules), want) {
		t.Errorf("there is no %q in\n%s", want, modules)
	}
}

// TestServices checks that only Caddy gets the signal to exit, that no key is in a log
// because of how Caddy is started, and that none has a name that Codex reads.
func TestServices(t *testing.T) {
	unit := strings.Split(exampleFile(t, "systemd/caddy-codex.service"), "\n")
	for _, line := range []string{"KillMode=mixed", "Type=notify", "Environment=PATH=/usr/local/bin:/usr/bin:/bin"} {
		if !slices.Contains(unit, line) {
			t.Errorf("the unit has no %s", line)
		}
	}
	for _, line := range unit {
		if strings.HasPrefix(line, "Exec") && strings.Contains(line, "--environ") {
			t.Errorf("the environment is logged: %s", line)
		}
	}
	compose := exampleFile(t, "docker/compose.yaml")
	if !strings.Contains(compose, "\n    init: true\n") || !strings.Contains(compose, "CLIENT_KEY: ") || strings.Contains(compose, "CODEX_API_KEY: ") {
		t.Error(compose)
	}
	if !strings.Contains(compose, "\n      - \"127.0.0.1:8080:8080\"\n") {
		t.Error("the port is open to other machines")
	}
	if !regexp.MustCompile(`(?m)^HEALTHCHECK .*/readyz`).MatchString(exampleFile(t, "docker/Dockerfile")) {
		t.Error("the image has no health check")
	}
}

// TestExampleIsLocal checks that the example without a key listens on loopback only.
func TestExampleIsLocal(t *testing.T) {
	config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(e2e.ReadFile(t, "../../../../Caddyfile.example")), nil)
	must.OK(t, err)
	var adapted struct {
		Apps struct {
			HTTP struct {
				Servers map[string]struct{ Listen []string }
			}
		}
	}
	if err := json.Unmarshal(config, &adapted); err != nil || len(adapted.Apps.HTTP.Servers) == 0 {
		t.Fatalf("%v in %s", err, config)
	}
	for _, server := range adapted.Apps.HTTP.Servers {
		for _, address := range server.Listen {
			if host, _, err := net.SplitHostPort(address); err != nil || !net.ParseIP(host).IsLoopback() {
				t.Errorf("it listens on %s", address)
			}
		}
	}
}

// TestSmoke runs the smoke check against a server that works, and against such as do not.
func TestSmoke(t *testing.T) {
	s := e2e.NewSite(t, "api_key k")
	admin := s.WithAdmin(s.Caddyfile("api_key k"))
	s.WaitReady()
	for name, c := range map[string]struct {
		url, key, want string
		ok, recorded   bool
	}{
		"works":        {s.URL, "k", "two calls of a tool, and an answer to their results", true, false},
		"recorded":     {s.URL, "k", "-results ", true, true},
		"with /v1":     {s.URL + "/v1/", "k", "all is well", true, false},
		"wrong key":    {s.URL, "x", "models: status 401", false, false},
		"nobody there": {"http://" + e2e.FreeAddr(t), "k", "health: no answer", false, false},
		"another path": {s.URL + "/other", "k", "health: status 404", false, false},
		"a failure":    {s.URL, "k", "content_policy_violation: ", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(e2e.Context(t), "../../../../scripts/smoke", c.url)
			cmd.Env = append(os.Environ(), "KEY="+c.key, "MODEL=", "ADMIN=")
			if c.recorded {
				cmd.Env = append(cmd.Env, "ADMIN="+admin.Addr, "CADDY="+e2e.BuiltCaddy(t))
			}
			if name == "a failure" {
				defer s.Model.On(func(scriptedmodel.Request) (scriptedmodel.Script, bool) {
					return scriptedmodel.Script{End: scriptedmodel.Failed{Code: "cyber_policy"}}, true
				})()
			}
			out, err := cmd.CombinedOutput()
			if (err == nil) != c.ok || !strings.Contains(string(out), c.want) {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}
