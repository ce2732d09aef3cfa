package caddymodule

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
)

// runCommand runs `caddy codex` with arguments.
func runCommand(t *testing.T, args ...string) (output string, err error) {
	t.Helper()
	root := &cobra.Command{Use: "codex", SilenceUsage: true, SilenceErrors: true}
	caddycmd.Commands()["codex"].CobraFunc(root)
	var text bytes.Buffer
	root.SetOut(&text)
	root.SetErr(&text)
	root.SetArgs(args)
	err = root.Execute()
	return text.String(), err
}

// writeProgram writes a shell script and returns its path.
func writeProgram(t *testing.T, lines string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "codex")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+lines+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// writeConfig writes a Caddyfile whose admin API is at an address.
func writeConfig(t *testing.T, admin, site string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "Caddyfile")
	text := "{\nadmin " + admin + "\n}\nhttp://127.0.0.1:1 {\ncodex {\n" + site + "\n}\n}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// unanswered is an address at which nobody answers.
const unanswered = "127.0.0.1:1"

// TestCommandStatusWithoutCaddy checks what the status says if no Caddy runs: each
// app-server of the configuration once, with what codex says of the login of its home.
func TestCommandStatusWithoutCaddy(t *testing.T) {
	codex := writeProgram(t, `echo "$* in $CODEX_HOME $EXTRA" >&2; exit 1`)
	config := writeConfig(t, unanswered, `
		app_server `+codex+` -c a=b app-server {
			home /one
			env EXTRA more
			processes 2
		}
		app_server {
			command `+codex+` serve
			home /two
		}`)
	output, err := runCommand(t, "status", "--config", config)
	if err != nil {
		t.Fatal(err, output)
	}
	for _, want := range []string{
		"No Caddy can be asked", "app_server 1 (", "login: -c a=b login status in /one more\n",
		"app_server 2 (", "run `codex login` for it by hand",
	} {
		if !strings.Contains(output, want) {
			t.Errorf("no %q in\n%s", want, output)
		}
	}
	if strings.Contains(output, "app_server 3") {
		t.Errorf("it says too much:\n%s", output)
	}
	if output, err := runCommand(t, "status", "--address", unanswered); err == nil {
		t.Errorf("an address without an answer made\n%s", output)
	}
}

// TestCommandStatus checks what the status says of a Caddy that runs.
func TestCommandStatus(t *testing.T) {
	c := provision(t, fakeHandler(t, "shown"))
	c.start(t)
	pid(t, sole(t, c.handlers[0]))
	admin := http.NewServeMux()
	for _, route := range (Admin{}).Routes() {
		admin.HandleFunc(route.Pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := route.Handler.ServeHTTP(w, r); err != nil {
				t.Error(err)
			}
		})
	}
	server := httptest.NewServer(admin)
	defer server.Close()
	output, err := runCommand(t, "status", "--address", strings.TrimPrefix(server.URL, "http://"))
	if err != nil || !strings.Contains(output, sole(t, c.handlers[0]).ID()+": ready\n") || !strings.Contains(output, "codex 0.169.0") || !strings.Contains(output, "login: ") {
		t.Error(err, output)
	}
}

// TestCommandDirectory checks that the Caddyfile of the directory says where Caddy is, and what is
// said of one that cannot be used.
func TestCommandDirectory(t *testing.T) {
	admin := unanswered
	t.Chdir(filepath.Dir(writeConfig(t, admin, "app_server /no/such/codex")))
	if output, err := runCommand(t, "status"); err != nil || !strings.Contains(output, "the admin API at "+admin) {
		t.Error(err, output)
	}
	if err := os.WriteFile("Caddyfile", []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := runCommand(t, "check"); err == nil || !strings.HasSuffix(err.Error(), "name the configuration with --config") {
		t.Error(err)
	}
}

// TestConfiguredAppServers checks that the ids are those of the admin API, and which
// configurations are refused.
func TestConfiguredAppServers(t *testing.T) {
	config := `{"apps":{"http":{"servers":{"b":{"routes":[{"handle":[{"handler":"subroute","routes":[{"handle":[{"handler":"codex","app_servers":[{"command":["/no/such"]}]}]}]}]}]},
		"a":{"routes":[{"handle":[{"handler":"codex","app_servers":[{"home":"/a"},{"command":["/no/such"]}]}]}]}}}}}`
	servers, err := configuredAppServers([]byte(config))
	if err != nil || len(servers) != 2 || servers[0].Config.Home != "/a" || servers[1].Config.Home != "" {
		t.Error(servers, err)
	}
	c := provision(t, &Handler{AppServers: []*AppServer{{Command: []string{"/no/such"}}}})
	c.start(t)
	if id := sole(t, c.handlers[0]).ID(); id != servers[1].IDs[0] {
		t.Errorf("the id %s is %s in the configuration", id, servers[1].IDs)
	}
	for _, bad := range []string{`{`, `{"handler":"codex","app_servers":7}`, `[{"handler":"codex","app_servers":[null]}]`, `{"handler":"codex","max_body":-2}`} {
		if servers, err := configuredAppServers([]byte(bad)); err == nil {
			t.Errorf("%s made %v", bad, servers)
		}
	}
}
