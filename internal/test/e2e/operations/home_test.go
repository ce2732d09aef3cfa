package operations

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/codexhome"
	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/planbackend"
	"github.com/caddy-codex/caddy-codex/internal/test/rig"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// operatorsConfig is a config.toml as an operator who works with Codex may have it.
// MARKER is a file that its programs create, HOME is the CODEX_HOME.
const operatorsConfig = `
developer_instructions = "LEAK developer_instructions"
instructions = "LEAK instructions"
model_instructions_file = "instructions.md"
compact_prompt = "LEAK compact_prompt"
notify = ["sh", "-c", "touch MARKER"]
personality = "friendly"
model_reasoning_effort = "high"
model_reasoning_summary = "detailed"
model_verbosity = "high"
service_tier = "flex"
model_auto_compact_token_limit = 10
tool_output_token_limit = 10
project_doc_max_bytes = 100000
project_doc_fallback_filenames = ["LEAK.md"]
web_search = "live"
include_environment_context = true
include_permissions_instructions = true
sandbox_mode = "danger-full-access"
approval_policy = "never"
suppress_unstable_features_warning = true
%s
[features]
shell_tool = true
multi_agent = true
memories = true
hooks = true
goals = true
view_image = true
[mcp_servers.marker]
command = "sh"
args = ["-c", "touch MARKER; exec cat"]
[[hooks.SessionStart]]
[[hooks.SessionStart.hooks]]
type = "command"
command = "touch MARKER"
[[hooks.UserPromptSubmit]]
[[hooks.UserPromptSubmit.hooks]]
type = "command"
command = "touch MARKER"
[projects."/"]
trust_level = "trusted"
[agents.marker]
description = "LEAK agent"
[plugins."marker@local"]
enabled = true
[marketplaces.local]
source_type = "local"
source = "HOME/marketplace"
[shell_environment_policy]
set = { LEAK = "LEAK" }
`

const leakingSkill = "---\nname: marker\ndescription: LEAK of a skill\n---\nLEAK of a skill's text. Run touch MARKER.\n"

// operatorsFiles are the other files of that home. USER is the operator's home directory.
var operatorsFiles = map[string]string{
	"HOME/AGENTS.md":                     "LEAK AGENTS.md",
	"HOME/AGENTS.override.md":            "LEAK AGENTS.override.md",
	"HOME/instructions.md":               "LEAK instructions.md",
	"HOME/skills/marker/SKILL.md":        leakingSkill,
	"USER/.agents/skills/other/SKILL.md": strings.Replace(leakingSkill, "name: marker", "name: other", 1),
	"HOME/prompts/marker.md":             "LEAK of a prompt",
	"HOME/rules/default.rules":           `prefix_rule(pattern=["touch"], decision="allow")` + "\n",
	"HOME/memories/MEMORY.md":            "LEAK of a memory",
	"HOME/memories/memory_summary.md":    "LEAK of a memory",
	"HOME/history.jsonl":                 `{"session_id":"x","ts":1,"text":"LEAK of the history"}` + "\n",
	"HOME/hooks.json":                    `{"hooks":{"SessionStart":[{"hooks":[{"type":"command","command":"touch MARKER"}]}]}}`,
	"HOME/managed_config.toml":           `developer_instructions = "LEAK managed"` + "\n",
	"HOME/sessions/2026/01/01/rollout-2026-01-01T00-00-00-00000000-0000-7000-8000-000000000001.jsonl": `{"timestamp":"2026-01-01T00:00:00.000Z","type":"session_meta","payload":{"id":"00000000-0000-7000-8000-000000000001","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/","originator":"x","cli_version":"0.169.0","source":"cli"}}` + "\n",
	"HOME/marketplace/.agents/plugins/marketplace.json":                                               `{"name":"local","plugins":[{"name":"marker","source":{"source":"local","path":"./marker"}}]}`,
	"HOME/marketplace/marker/.codex-plugin/plugin.json":                                               `{"name":"marker","description":"LEAK of a plugin"}`,
	"HOME/plugins/cache/local/marker/local/.codex-plugin/plugin.json":                                 `{"name":"marker","description":"LEAK of a plugin"}`,
	"HOME/plugins/cache/local/marker/local/skills/plugskill/SKILL.md":                                 strings.Replace(leakingSkill, "name: marker", "name: plugskill", 1),
	"HOME/plugins/cache/local/marker/local/.mcp.json":                                                 `{"mcpServers":{"plug":{"command":"sh","args":["-c","touch MARKER; exec cat"]}}}`,
}

// TestNothingOfTheOperatorsHome checks that the model gets the same bytes with a full home of the
// operator as with an empty one, and that none of the operator's programs runs.
func TestNothingOfTheOperatorsHome(t *testing.T) {
	user := t.TempDir()
	t.Setenv("HOME", user)
	e2e.OwnTemp(t)
	s := e2e.NewSite(t, "")
	admin := s.WithAdmin(s.Caddyfile(""))
	s.WaitReady()
	models := []string{"gpt-5", s.CatalogueModel(t)}
	want := whatTheModelGets(t, s, models)

	marker := filepath.Join(user, "marker-file")
	names := strings.NewReplacer("MARKER", marker, "HOME", s.Home, "USER", user)
	for path, content := range operatorsFiles {
		e2e.WriteFile(t, names.Replace(path), names.Replace(content))
	}
	variables := filepath.Join(s.Home, ".env")
	needed, _ := os.ReadFile(variables) // without a login there is none
	e2e.WriteFile(t, variables, string(needed)+"LEAK=1\nOPENAI_API_KEY=LEAK\n")
	path := filepath.Join(s.Home, "config.toml")
	top, tables := e2e.ReadFile(t, path), ""
	if table := strings.Index(top, "\n["); table >= 0 {
		top, tables = top[:table], top[table:]
	}
	top = regexp.MustCompile(`(?m)^(approval_policy|sandbox_mode) .*\n`).ReplaceAllString(top, "")
	e2e.WriteFile(t, path, fmt.Sprintf(names.Replace(operatorsConfig), top)+tables)
	e2e.Restart(s, admin)

	got := whatTheModelGets(t, s, models)
	if len(got) != len(want) || len(want) == 0 {
		t.Fatalf("%d requests with an empty home, %d with another one", len(want), len(got))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("request %d:\nwith an empty home %s\nwith another one   %s", i, want[i], got[i])
		}
		if strings.Contains(got[i], "LEAK") || strings.Contains(got[i], s.Home) {
			t.Errorf("request %d tells of the operator's home: %s", i, got[i])
		}
	}
	if _, err := os.Stat(marker); !os.IsNotExist(err) {
		t.Errorf("a program of the operator's was run: %v", err)
	}
	for _, dir := range e2e.PrivateDirs(t) {
		checkNoLog(t, dir)
	}
	s.Load(s.Wrap("respond ok"))
	e2e.WaitFor(t, "the private directories to be removed", func() bool { return len(e2e.PrivateDirs(t)) == 0 })
}

// checkNoLog: there is no log database and no sessions, which Codex would search for each thread.
func checkNoLog(t *testing.T, dir string) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(dir, "home-*", "codex", "*logs*"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("nothing is in the place of the log in %s: %v", dir, err)
	}
	for _, path := range logs {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			t.Errorf("there is a log of %d bytes, %s", info.Size(), path)
		}
	}
	if sessions, err := filepath.Glob(filepath.Join(dir, "home-*", "codex", "*sessions*")); err != nil || len(sessions) > 0 {
		t.Errorf("there are %s, %v", sessions, err)
	}
}

// whatTheModelGets returns the requests that reach the model, with names instead of ids and times.
func whatTheModelGets(t *testing.T, s *e2e.Site, models []string) (requests []string) {
	t.Helper()
	first := len(s.Model.Requests())
	const mentions = "say:ok $marker $other $plugskill $marker:plugskill /marker @marker [$marker](skill://marker)"
	for _, model := range models {
		for _, more := range []map[string]any{{}, {"tools": []any{e2e.Tool("localSearch")}}, {"reasoning_effort": "low"}} {
			more = maps.Clone(more)
			more["model"] = model
			if response, text := s.Post(e2e.ChatBody(mentions, more), nil); response.StatusCode != http.StatusOK {
				t.Fatal(response.Status, text)
			}
		}
	}
	for _, request := range s.Model.Requests()[first:] {
		requests = append(requests, withoutIDs(t, request))
	}
	return requests
}

var (
	uuids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	times = regexp.MustCompile(`\b1[0-9]{12}\b|"create_time":[0-9.]+`) // Unix milliseconds and, with a login, seconds
	// The ids of the model and the random parts of a handshake.
	numbers = regexp.MustCompile(`"resp_[0-9]+"`)
	nonces  = "Sec-Websocket-Key"
)

// withoutIDs returns a request and its header as text without ids.
func withoutIDs(t *testing.T, request scriptedmodel.Request) string {
	t.Helper()
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(request.Header)) {
		if name == nonces {
			continue
		}
		fmt.Fprintf(&text, "%s: %q\n", name, request.Header[name])
	}
	// The order of the members of client_metadata varies.
	var body struct {
		Metadata json.RawMessage `json:"client_metadata"`
	}
	sorted, err := json.Marshal(request.Metadata)
	if err = errors.Join(err, json.Unmarshal(request.Body, &body)); err != nil || len(body.Metadata) == 0 {
		t.Fatalf("%s: %v", request.Body, err)
	}
	text.Write(bytes.Replace(request.Body, body.Metadata, sorted, 1))
	return numbers.ReplaceAllString(times.ReplaceAllString(uuids.ReplaceAllString(text.String(), "ID"), "TIME"), `"NUMBER"`)
}

// TestNothingOfTheWorkingDirectory: the model gets nothing of a project where the command begins.
func TestNothingOfTheWorkingDirectory(t *testing.T) {
	e2e.OwnTemp(t)
	s := e2e.NewSite(t, "")
	models := []string{"gpt-5"}
	want := whatTheModelGets(t, s, models)

	project, marker := t.TempDir(), filepath.Join(t.TempDir(), "marker-file")
	dir := filepath.Join(project, "part")
	for _, at := range []string{project, dir} {
		e2e.WriteFile(t, filepath.Join(at, "AGENTS.md"), "LEAK AGENTS.md")
		e2e.WriteFile(t, filepath.Join(at, ".agents/skills/marker/SKILL.md"), leakingSkill)
		e2e.WriteFile(t, filepath.Join(at, ".codex/skills/other/SKILL.md"), strings.Replace(leakingSkill, "name: marker", "name: other", 1))
		e2e.WriteFile(t, filepath.Join(at, ".codex/config.toml"),
			"developer_instructions = \"LEAK\"\n[mcp_servers.marker]\ncommand = \"touch\"\nargs = [\""+marker+"\"]\n")
	}
	e2e.WriteFile(t, filepath.Join(project, ".git/HEAD"), "ref: refs/heads/main\n")
	script := filepath.Join(t.TempDir(), "codex")
	must.OK(t, os.WriteFile(script, []byte("#!/bin/sh\ncd '"+dir+"' && exec "+e2e.CodexBinary+` "$@"`+"\n"), 0o700))
	s.Load(s.Caddyfile(strings.Replace(s.AppServer(), e2e.CodexBinary, script, 1)))
	s.WaitReady()
	got := whatTheModelGets(t, s, models)
	if !slices.Equal(got, want) {
		t.Errorf("in an empty directory\n%s\nin a project\n%s", want, got)
	}
	if _, err := os.Stat(marker); !os.IsNotExist(err) {
		t.Errorf("a program of the project's was run: %v", err)
	}
}

// TestCertificates: Codex trusts the operator's certificates, though it gets them in a faster way.
func TestCertificates(t *testing.T) {
	e2e.OverBoth(t, func(t *testing.T) {
		other, err := planbackend.NewAuthority()
		must.OK(t, err)
		own, err := planbackend.NewAuthority()
		must.OK(t, err)
		certificate, err := own.ForHost("127.0.0.1")
		must.OK(t, err)
		file := filepath.Join(t.TempDir(), "certificates.pem")
		must.OK(t, os.WriteFile(file, slices.Concat(other.PEM, own.PEM), 0o600))
		s := e2e.NewSite(t, "")
		server := httptest.NewUnstartedServer(s.Model)
		server.TLS = &tls.Config{Certificates: []tls.Certificate{*certificate}}
		server.StartTLS()
		t.Cleanup(server.Close)
		s.Home = t.TempDir()
		e2e.WriteHome(t, s.Home, server.URL+"/v1", codexhome.Options{})
		s.Load(s.Caddyfile(fmt.Sprintf("app_server %s app-server {\nhome %s\nenv SSL_CERT_FILE %s\n}", e2e.CodexBinary, s.Home, file)))
		s.WaitReady()
		s.Served("say:trusted")
		checkCertificates(t)
		s.Load(s.Wrap("respond ok")) // no connection to a server is left
	})
}

// checkCertificates checks that the app-server has a further certificate.
func checkCertificates(t *testing.T) {
	t.Helper()
	e2e.WaitFor(t, "a single codex", func() bool { return len(e2e.Children()) == 1 })
	environment := e2e.ReadFile(t, fmt.Sprintf("/proc/%d/environ", rig.Below(os.Getpid())[0]))
	if !strings.Contains("\x00"+environment, "\x00CODEX_CA_CERTIFICATE=") {
		t.Errorf("Codex reads the certificates slowly: %q", environment)
	}
}
