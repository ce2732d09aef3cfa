package clients

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/gateway"
	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/needs"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

var (
	namedTest = regexp.MustCompile("`(Test\\w+)`")
	notRun    = regexp.MustCompile(`(?i)not\s+run\s+here: [^;]+;\s+settings\s+by[^.]+ of\s+20\d\d-\d\d-\d\d\.`)
)

// TestClientPages: pages of clients have one shape and name existing tests, and the snippets run.
func TestClientPages(t *testing.T) {
	paths, err := filepath.Glob("../../../../docs/clients/*.md")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	index := e2e.ReadFile(t, "../../../../docs/clients.md")
	s := e2e.NewSite(t, "api_key sk-mine")
	s.Model.On(func(r scriptedmodel.Request) (scriptedmodel.Script, bool) { // Claude Code says more than its user
		asked := strings.Contains(string(r.Body), "system-reminder")
		return scriptedmodel.Script{Output: []scriptedmodel.Output{scriptedmodel.Say("Hello.")}}, asked
	})
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			text := e2e.ReadFile(t, path)
			checkShape(t, text)
			if !strings.Contains(index, "(clients/"+filepath.Base(path)+")") {
				t.Error("docs/clients.md does not list it")
			}
			home := t.TempDir() // where the page's files are, and its commands run
			for _, b := range blocksOf(t, path) {
				if strings.Contains(b.text, "localhost:8080") || strings.Contains(b.text, "Say hello.") {
					runSnippet(t, s.At(t), b, home)
				}
			}
		})
	}
}

// steps are those of every page, from nothing to the first answer.
var steps = []string{"Start the server", "Install the client", "Set address and key", "Ask something", "Look whether it works"}

// checkSteps checks that the settings begin with the five steps, of which the first says how to get a server, or where
// that is written, and the last where to look if there is no answer.
func checkSteps(t *testing.T, settings string) {
	t.Helper()
	_, list, _ := strings.Cut(settings, "\n\n")
	list, _, _ = strings.Cut(list, "\n\n")
	items := regexp.MustCompile(`(?m)^\d\. `).Split(list, -1)[1:]
	if len(items) != len(steps) {
		t.Fatalf("it has %d steps, not %d:\n%s", len(items), len(steps), list)
	}
	for i, name := range steps {
		if !strings.HasPrefix(items[i], "**"+name) || !strings.Contains(list, fmt.Sprintf("%d. **%s", i+1, name)) {
			t.Errorf("step %d is no %q: %s", i+1, name, items[i])
		}
	}
	if !strings.Contains(items[0], "](../../README.md#") || !strings.Contains(items[4], "](../troubleshooting.md") {
		t.Errorf("the first step links no server, or the last one no help:\n%s", list)
	}
}

// TestReadmeClients: the README links pages of clients for those who begin.
func TestReadmeClients(t *testing.T) {
	readme := e2e.ReadFile(t, "../../../../README.md")
	for _, name := range []string{"claude-code", "codex-cli", "cursor", "home-assistant", "langchain", "obsidian-copilot", "open-webui", "python", "vs-code"} {
		if !strings.Contains(readme, "(docs/clients/"+name+".md)") {
			t.Errorf("the README does not link %s", name)
		}
	}
}

// checkShape checks the headings of a page, and what it says was run: its snippets, the
// program in another test, or neither.
func checkShape(t *testing.T, page string) {
	t.Helper()
	sections := strings.Split(page, "\n## ")
	var headings []string
	for _, section := range sections[1:] {
		heading, _, _ := strings.Cut(section, "\n")
		headings = append(headings, heading)
	}
	if want := []string{"Settings", "What works", "What was run", "Known limits"}; !slices.Equal(headings, want) {
		t.Fatalf("the headings are %q, want %q", headings, want)
	}
	checkSteps(t, sections[1])
	run := sections[3]
	tests := namedTest.FindAllStringSubmatch(run, -1)
	if len(tests) == 0 {
		t.Error("it names no test")
	}
	for _, match := range tests {
		if !slices.Contains(testNames(), match[1]) {
			t.Errorf("there is no test %s", match[1])
		}
	}
	if !regexp.MustCompile("TestClientPages|TestOpenCode").MatchString(run) && !notRun.MatchString(run) {
		t.Errorf("it says neither that its snippets are run nor that the program is not:\n%s", run)
	}
}

// buildDeadline bounds the build of a snippet in Go with the SDK, which is large.
const buildDeadline = 10 * time.Minute

// commandNotFound is the exit status of a shell that does not find a command.
const commandNotFound = 127

// settingsFiles are the files below the home into which a person writes the data on a page.
var settingsFiles = map[string]string{"continue.md": ".continue/config.yaml", "opencode.md": "opencode.json"}

// runSnippet runs a snippet with the site's address, or writes it into its file.
func runSnippet(t *testing.T, s *e2e.Site, b block, home string) {
	t.Helper()
	text := strings.ReplaceAll(b.text, "http://localhost:8080", s.URL)
	var cmd *exec.Cmd
	want := ""
	if file := settingsFiles[filepath.Base(b.page)]; file != "" && b.lang != "sh" {
		must.OK(t, os.MkdirAll(filepath.Dir(filepath.Join(home, file)), 0o700))
		e2e.WriteFile(t, filepath.Join(home, file), text)
		return
	}
	switch b.lang {
	case "js":
		if _, err := exec.LookPath("node"); err != nil {
			needs.Missing(t, "this snippet needs Node.js 20 or later: install it to run this test")
		}
		if _, err := os.Stat("node_modules/.package-lock.json"); err != nil {
			needs.Missing(t, "the clients are not installed: run `make deps`")
		}
		cmd, want = exec.CommandContext(e2e.Context(t), "node", "--input-type=module"), "hello"
		cmd.Stdin = strings.NewReader(text)
	case "go":
		path := filepath.Join(t.TempDir(), "main.go")
		e2e.WriteFile(t, path, text)
		ctx, cancel := context.WithTimeout(context.Background(), buildDeadline)
		defer cancel()
		cmd, want = exec.CommandContext(ctx, "go", "run", path), "hello"
	case "sh":
		ctx, cancel := context.WithTimeout(context.Background(), 2*e2e.Deadline) // opencode computes for ten seconds
		defer cancel()
		cmd = exec.CommandContext(ctx, "bash", "-e", "-c", text)
		if strings.Contains(text, "curl") || strings.Contains(text, "Say hello.") {
			want = "hello"
		}
	case "toml":
		runCodexPage(t, s, text)
		return
	case "json":
		runEndpoint(t, text)
		return
	default:
		return // data, which TestDocumentedBlocks checks
	}
	cmd.Env = append(os.Environ(), "NODE_NO_WARNINGS=1", "OPENAI_API_KEY=", "CLAUDE_CODE_PATH="+claudeCode(t), "CODEX_KEY=sk-mine",
		"GOPATH="+goEnv(t, "GOPATH"), "GOCACHE="+goEnv(t, "GOCACHE"))
	if b.lang == "sh" { // a client, which may reach the site alone
		cmd.Dir = home
		cmd.Env = append(cmd.Env, sealed(t)...)
	}
	cmd.Env = append(cmd.Env, "HOME="+home, "PATH="+programs(t)+":"+os.Getenv("PATH"))
	output, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() == commandNotFound {
		needs.Missing(t, "the client of "+b.page+" is not installed for this system: run `make deps`")
	}
	if err != nil || !strings.Contains(strings.ToLower(string(output)), want) {
		t.Errorf("%s: %v\n%s", b, err, output)
	}
}

// programs returns the directories of the clients' programs, for the PATH.
func programs(t *testing.T) string {
	t.Helper()
	dirs := []string{filepath.Dir(claudeCode(t))}
	for _, dir := range []string{".bin", "@github/copilot-linux-x64", "opencode-linux-x64-baseline/bin"} {
		path, err := filepath.Abs(filepath.Join("node_modules", dir))
		must.OK(t, err)
		dirs = append(dirs, path)
	}
	return strings.Join(dirs, ":")
}

// claudeCode returns the path of Claude Code, which the snippet of its SDK runs.
func claudeCode(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("node_modules/@anthropic-ai/claude-code-linux-x64/claude")
	must.OK(t, err)
	return path
}

// goEnv returns a setting of the go command.
func goEnv(t *testing.T, name string) string {
	t.Helper()
	value, err := exec.CommandContext(e2e.Context(t), "go", "env", name).Output()
	must.OK(t, err)
	return strings.TrimSpace(string(value))
}

// runEndpoint asks the address in a list of models for VS Code, with its key and its model.
func runEndpoint(t *testing.T, text string) {
	t.Helper()
	var endpoints []struct {
		APIKey string `json:"apiKey"`
		Models []struct{ ID, URL string }
	}
	if err := json.Unmarshal([]byte(text), &endpoints); err != nil {
		return // another client's
	}
	for _, endpoint := range endpoints {
		for _, model := range endpoint.Models {
			body := `{"model":"` + model.ID + `","messages":[{"role":"user","content":"Say hello."}]}`
			request, err := http.NewRequestWithContext(e2e.Context(t), http.MethodPost, model.URL, strings.NewReader(body))
			must.OK(t, err)
			request.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + endpoint.APIKey}}
			response, err := http.DefaultClient.Do(request)
			must.OK(t, err)
			answer, err := io.ReadAll(response.Body)
			if _ = response.Body.Close(); err != nil || response.StatusCode != http.StatusOK || !strings.Contains(strings.ToLower(string(answer)), "hello") {
				t.Errorf("%s: %v %s %s", model.URL, err, response.Status, answer)
			}
		}
	}
}

func runCodexPage(t *testing.T, s *e2e.Site, config string) {
	t.Helper()
	home := t.TempDir()
	e2e.WriteFile(t, filepath.Join(home, "config.toml"), config)
	cmd := exec.CommandContext(e2e.Context(t), e2e.CodexBinary, "exec", "--skip-git-repo-check", "--cd", t.TempDir(), "say:Hello from the page.")
	cmd.Env = append(os.Environ(), "CODEX_HOME="+home, "CADDY_CODEX_KEY=sk-mine")
	if output, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(output), "Hello from the page.") {
		t.Errorf("%v\n%s", err, output)
	}
}

// TestDocumentedRequests runs each curl of the documentation against its address on localhost, with all
// APIs on.
func TestDocumentedRequests(t *testing.T) {
	options := ""
	for _, a := range gateway.APIs {
		if a.Option != "" {
			options += a.Option + " on\n"
		}
	}
	e2e.WithLogin(t) // pictures need it
	s := e2e.NewSite(t, options)
	s.Model.On(func(r scriptedmodel.Request) (scriptedmodel.Script, bool) {
		call := scriptedmodel.Call{Namespace: "image_gen", Name: "imagegen", Arguments: e2e.EncodeJSON(e2e.Fields{"prompt": r.UserText()})}
		return scriptedmodel.Script{Output: []scriptedmodel.Output{call}}, strings.Contains(string(r.Body), "imagegen") && len(r.ToolResults()) == 0
	})
	admin := s.WithAdmin(s.Caddyfile(options))
	s.WaitReady()
	run := 0
	for _, page := range pages(t) {
		for _, b := range blocksOf(t, page) {
			if kindOf(b) != "sh" || filepath.Base(filepath.Dir(page)) == "clients" {
				continue
			}
			for line := range strings.Lines(strings.ReplaceAll(b.text, "\\\n", " ")) {
				if !strings.HasPrefix(line, "curl ") {
					continue
				}
				run++
				line = strings.NewReplacer("http://localhost:8080", s.URL, "http://localhost:11434", s.URL, "http://localhost:2019", admin.URL).Replace(line)
				cmd := exec.CommandContext(e2e.Context(t), "bash", "-o", "pipefail", "-c", strings.Replace(line, "curl ", "curl --fail -sS ", 1))
				cmd.Dir = t.TempDir() // where it may write files
				if output, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%s: %v\n%s", b, err, output)
				}
			}
		}
	}
	if run < 3 {
		t.Errorf("%d requests were found", run)
	}
}
