package caddymodule

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
	"go.uber.org/zap"
	zaplog "go.uber.org/zap/zaptest/observer"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

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

func writeProgram(t *testing.T, lines string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "codex")
	must.OK(t, os.WriteFile(path, []byte("#!/bin/sh\n"+lines+"\n"), 0o700))
	return path
}

// writeConfig writes a Caddyfile whose admin API is at an address.
func writeConfig(t *testing.T, admin, site string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "Caddyfile")
	text := "{\nadmin " + admin + "\n}\nhttp://127.0.0.1:1 {\ncodex {\n" + site + "\n}\n}\n"
	must.OK(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

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

// TestCommandDirectory checks that the Caddyfile of the directory says where Caddy is, and what is
// said of one that cannot be used.
func TestCommandDirectory(t *testing.T) {
	admin := unanswered
	t.Chdir(filepath.Dir(writeConfig(t, admin, "app_server /no/such/codex")))
	if output, err := runCommand(t, "status"); err != nil || !strings.Contains(output, "the admin API at "+admin) {
		t.Error(err, output)
	}
	must.OK(t, os.WriteFile("Caddyfile", []byte("{"), 0o600))
	if _, err := runCommand(t, "check"); err == nil || !strings.HasSuffix(err.Error(), "name the configuration with --config") {
		t.Error(err)
	}
}

// TestConfiguredAppServers checks the ids, those of the admin API, and what is refused.
func TestConfiguredAppServers(t *testing.T) {
	config := `{"apps":{"http":{"servers":{"b":{"routes":[{"handle":[{"handler":"subroute","routes":[{"handle":[{"handler":"codex","app_servers":[{"command":["no-such","app-server"]}]}]}]}]}]},
		"a":{"routes":[{"handle":[{"handler":"codex","app_servers":[{"home":"/a"},{"command":["no-such","app-server"]}]}]}]}}}}}`
	servers, err := configuredAppServers([]byte(config))
	if err != nil || len(servers) != 2 || servers[0].Config.Home != "/a" || servers[1].Config.Home != "" {
		t.Error(servers, err)
	}
	c := provision(t, &Handler{AppServers: []*AppServer{{Command: []string{"no-such", "app-server"}}}})
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

// TestCommandKey makes a key with every option, by the configuration and by --file, lists
// the keys, and revokes them. The handler takes the key.
func TestCommandKey(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("CADDYMODULE_DIR", dir)
	file := filepath.Join(dir, "keys")
	config := writeConfig(t, unanswered, "api_keys_file {env.CADDYMODULE_DIR}/keys")
	output, err := runCommand(t, "key", "add", "ann-1", "--config", config,
		"--user", "ann", "--expires", "90d", "--models", "gpt-5.5,fast", "--max-concurrent", "4",
		"--requests", "60/1m", "--requests", "1000/day", "--tokens", "500000/5h", "--plan-share", "12.5%", "--lend", "on")
	if err != nil {
		t.Fatal(err, output)
	}
	key := regexp.MustCompile(`(?m)^sk-codex-[A-Z0-9]+$`).FindString(output)
	if key == "" || strings.Count(output, key) != 1 {
		t.Fatal("the key is not printed alone on a line:", output)
	}
	content, err := os.ReadFile(file)
	if err != nil || strings.Contains(string(content), key) {
		t.Fatal(string(content), err)
	}
	h := withKeys(t, &Handler{Keys: Keys{APIKeysFile: file}})
	k := h.keyFile.Set().Find(key)
	if k == nil || k.ID != "ann-1" || k.User != "ann" || len(k.Models) != 2 || k.MaxConcurrent != 4 || len(k.Limits) != 3 || k.PlanShare != 125 || !k.Lends {
		t.Fatalf("%+v", k)
	}
	if left := time.Until(k.Expires); left < 89*24*time.Hour || left > 90*24*time.Hour {
		t.Error("it expires in", left)
	}
	old := "\nkey old {\n\thash sha256:" + strings.Repeat("01", 32) + "\n\texpires 2020-01-31\n}\n"
	must.OK(t, os.WriteFile(file, append(content, old...), 0o600))
	output, err = runCommand(t, "key", "list", "--file", file)
	for _, want := range []string{"ann-1", "gpt-5.5 fast", "4 at once, 60 requests/1m, 1000 requests/day, 500000 tokens/5h, 12.5% of the plan, lends", "2020-01-31T00:00:00Z (expired)", "none"} {
		if err != nil || !strings.Contains(output, want) {
			t.Errorf("no %q in %v\n%s", want, err, output)
		}
	}
	if output, err := runCommand(t, "key", "revoke", "ann-1", "old", "ann-1", "--config", config); err != nil {
		t.Fatal(err, output)
	}
	if output, err := runCommand(t, "key", "list", "--config", config); err != nil || strings.Count(output, "\n") != 1 {
		t.Error(err, output)
	}
}

// TestCommandIsQuiet: Caddy's lines about the reading of a configuration are not beside the answer.
func TestCommandIsQuiet(t *testing.T) {
	config := writeConfig(t, unanswered, "api_keys_file "+filepath.Join(t.TempDir(), "keys"))
	_, before, log := caddy.BufferedLog()
	defer caddy.UnbufferDefaultLogger(before)
	output, err := runCommand(t, "key", "add", "ann", "--config", config)
	core, seen := zaplog.New(zap.InfoLevel)
	log.FlushTo(zap.New(core))
	if lines := seen.FilterMessage("adapted config to JSON").All(); err != nil || len(lines) != 0 {
		t.Error(err, output, lines)
	}
}

func TestCommandKeyErrors(t *testing.T) {
	for _, args := range [][]string{{"revok"}, {"key", "revok"}} {
		if output, err := runCommand(t, args...); err == nil || !strings.Contains(err.Error(), `unknown command "revok"`) {
			t.Errorf("%q: %v %s", args, err, output)
		}
		if output, err := runCommand(t, args[:len(args)-1]...); err != nil || !strings.Contains(output, "Usage:") {
			t.Errorf("%q: %v %s", args[:len(args)-1], err, output)
		}
	}
	file := filepath.Join(t.TempDir(), "keys")
	without := writeConfig(t, unanswered, "")
	for want, args := range map[string][]string{
		"no api_keys_file":                    {"add", "a", "--config", without},
		"--requests takes a number":           {"add", "a", "--file", file, "--requests", "60"},
		"requests has a wrong window":         {"add", "a", "--file", file, "--requests", "60/minute"},
		"expires takes a date":                {"add", "a", "--file", file, "--expires", "soon"},
		"max_concurrent takes a number above": {"add", "a", "--file", file, "--max-concurrent", "0"},
		"would have expired already":          {"add", "a", "--file", file, "--expires", "2020-01-31"},
		"have expired already":                {"add", "a", "--file", file, "--expires", "-1d"},
		"--expires is empty":                  {"add", "a", "--file", file, "--expires", ""},
		"--models is empty":                   {"add", "a", "--file", file, "--models", ""},
		"--user is empty":                     {"add", "a", "--file", file, "--user="},
		"one id":                              {"add", "a b", "--file", file},
		"accepts 1 arg":                       {"add", "--file", file},
		"no such file":                        {"list", "--file", file},
	} {
		if output, err := runCommand(t, append([]string{"key"}, args...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q\n%s", args, err, want, output)
		}
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("a refused command has made a file")
	}
}

// TestConfiguredKeyFiles checks that the file of codex_keys is found, and taken for no app-server's.
func TestConfiguredKeyFiles(t *testing.T) {
	config := []byte(`[{"handler":"codex_keys","api_keys_file":"/one"},{"handler":"codex","api_keys_file":"/two"},{"handler":"codex_keys","api_keys_file":"/two"},
		{"handler":"authentication","providers":{"codex_keys":{"api_keys_file":"/three"}}}]`)
	if files, err := configuredKeyFiles(config); err != nil || strings.Join(files, " ") != "/one /two /three" {
		t.Error(files, err)
	}
	if servers, err := configuredAppServers(config); err != nil || len(servers) != 1 {
		t.Error(servers, err)
	}
}
