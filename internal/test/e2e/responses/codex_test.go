package responses

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/apischema"
	"github.com/caddy-codex/caddy-codex/internal/test/codexhome"
	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// codexExec runs the Codex CLI with this site as its model provider and an ordinary configuration.
func codexExec(s *e2e.Site, dir, model, prompt string) (string, error) {
	s.T.Helper()
	return codexExecOver(s, codexhome.Options{}, dir, model, prompt)
}

// codexExecOver runs it with other options.
func codexExecOver(s *e2e.Site, opts codexhome.Options, dir, model, prompt string) (string, error) {
	s.T.Helper()
	return codexExecIn(s, codexHome(s, opts), dir, "--model", model, prompt)
}

// codexHome returns a home of the Codex CLI.
func codexHome(s *e2e.Site, opts codexhome.Options) string {
	s.T.Helper()
	home := s.T.TempDir()
	must.OK(s.T, codexhome.Write(home, s.URL+"/v1", opts))
	return home
}

// codexExecIn runs it in a home, with more arguments.
func codexExecIn(s *e2e.Site, home, dir string, arguments ...string) (string, error) {
	s.T.Helper()
	command := exec.CommandContext(e2e.Context(s.T), e2e.CodexBinary, append([]string{"exec",
		"--skip-git-repo-check", "--sandbox", "danger-full-access", "--cd", dir}, arguments...)...)
	// Codex runs commands in a login shell: what this user's profile does may take long.
	command.Env = append(os.Environ(), "CODEX_HOME="+home, "HOME="+home)
	output, err := command.CombinedOutput()
	return string(output), err
}

// TestCodexConversation: turns of one session of the Codex CLI go on in one thread.
func TestCodexConversation(t *testing.T) { e2e.OverBoth(t, testCodexConversation) }

func testCodexConversation(t *testing.T) {
	s := e2e.NewSite(t, "")
	home, dir := codexHome(s, codexhome.Options{}), t.TempDir()
	for i, prompt := range []string{
		`reason:a; say:I look.; tool:client_exec_command {"cmd":"echo one"}; tool:client_exec_command {"cmd":"echo two"}; then; reason:b; tool:1 client_exec_command {"cmd":"echo three"}; then; say:All done.`,
		"reason:c; say:All done.",
		`tool:1 client_exec_command {"cmd":"echo four"}; then; say:All done.`,
	} {
		arguments := []string{"--model", "gpt-5", prompt}
		if i > 0 {
			arguments = []string{"--model", "gpt-5", "resume", "--last", prompt}
		}
		output, err := codexExecIn(s, home, dir, arguments...)
		if err != nil || !strings.Contains(output, "All done.") {
			t.Errorf("%v\n%s", err, output)
		}
	}
	s.OneThread(6)
}

// TestCodexUpdates: with a provider that is named OpenAI, the CLI ends the input of each turn with a
// configuration_update. The turns go on in one thread, each with its effort.
func TestCodexUpdates(t *testing.T) {
	for way, sockets := range map[string]bool{"http": false, "websocket": true} {
		t.Run(way, func(t *testing.T) {
			s := e2e.NewSite(t, "")
			home, dir := codexHome(s, codexhome.Options{Name: "OpenAI", WebSockets: sockets}), t.TempDir()
			efforts := []string{"low", "high", "low"}
			for i, effort := range efforts {
				arguments := []string{"--model", "gpt-6.1-terra", "--config", "model_reasoning_effort=" + effort}
				if i > 0 {
					arguments = append(arguments, "resume", "--last")
				}
				arguments = append(arguments, `tool:1 client_exec {"input":"text(await tools.exec_command({cmd:'echo one'}))"}; then; say:All done.`)
				if output, err := codexExecIn(s, home, dir, arguments...); err != nil || !strings.Contains(output, "All done.") {
					t.Errorf("%v\n%s", err, output)
				}
			}
			s.OneThread(2 * len(efforts))
			requests, prompts := s.Model.Requests(), s.Prompts()
			for i := range requests {
				if got := e2e.EffortOf(t, requests[i].Reasoning.Effort, prompts[i].Input); got != efforts[i/2] {
					t.Errorf("request %d has the effort %q", i+1, got)
				}
			}
		})
	}
}

// TestCodexAsClient: the CLI has tools by model: functions, custom tools, or a script in the input.
func TestCodexAsClient(t *testing.T) {
	s := e2e.NewSite(t, "")
	const patch = `*** Begin Patch\n*** Add File: made.txt\n+by the patch\n*** End Patch\n`
	for _, c := range []struct{ name, model, prompt, want string }{
		{"function", "gpt-5", `tool:1 client_exec_command {"cmd":"echo by the command > made.txt"}; then; say:All done.`, "by the command\n"},
		{"custom tool", "gpt-5.5", `tool:1 client_apply_patch {"input":"` + patch + `"}; then; say:All done.`, "by the patch\n"},
		{"script", "gpt-6-astra", `tool:1 client_exec {"input":"text(await tools.exec_command({cmd: 'echo by the script > made.txt'}))"}; then; say:All done.`, "by the script\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, dir := s.At(t), t.TempDir()
			output, err := codexExec(s, dir, c.model, c.prompt)
			if err != nil || !strings.Contains(output, "All done.") {
				t.Errorf("%v\n%s", err, output)
			}
			made, err := os.ReadFile(filepath.Join(dir, "made.txt"))
			if err != nil || string(made) != c.want {
				t.Errorf("%q, %v\n%s", made, err, output)
			}
		})
	}
}

// TestCodexToolForms: the CLI gets calls in namespaces and of tool search, the model their outputs.
func TestCodexToolForms(t *testing.T) {
	s := e2e.NewSite(t, "")
	for _, c := range []struct{ name, model, call, output, offered string }{
		{"namespace", "gpt-6-astra", `collaboration__list_agents {}`, `"agent_name":"/root"`, ""},
		{"search", "gpt-5.5", `tool_search {"query":"agents","limit":3}`, `"name":"spawn_agent"`, "multi_agent_v1__spawn_agent"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := s.At(t)
			output, err := codexExec(s, t.TempDir(), c.model, "tool:1 "+c.call+"; then; say:All done.")
			if err != nil || !strings.Contains(output, "All done.") {
				t.Errorf("%v\n%s", err, output)
			}
			last, _ := s.Model.Last()
			if given := e2e.Describe(last); !strings.Contains(given[len(given)-1], c.output) {
				t.Errorf("the model was given %q", given[len(given)-1])
			}
			if c.offered != "" && !slices.ContainsFunc(last.Tools, func(tool scriptedmodel.Tool) bool { return tool.Name == c.offered }) {
				t.Errorf("the model was not offered %s", c.offered)
			}
		})
	}
}

// TestClientTools calls each tool that the client runs, and gives back its output.
func TestClientTools(t *testing.T) {
	s := e2e.NewSite(t, "")
	for _, c := range []struct {
		tool                     e2e.Fields
		call, kind, member, want string
		output                   any
		heard                    string
	}{
		{e2e.Fields{"type": "shell"}, `shell {"commands":["ls"]}`, "shell_call", "action", `{"commands":["ls"],"timeout_ms":null,"max_output_length":null}`,
			[]e2e.Fields{{"stdout": "a file", "stderr": "", "outcome": e2e.Fields{"type": "exit", "exit_code": 0}}}, "a file"},
		{e2e.Fields{"type": "apply_patch"}, `client_apply_patch {"type":"update_file","path":"a","diff":"@@"}`, "apply_patch_call", "operation", `{"type":"update_file","path":"a","diff":"@@"}`, "patched", "completed: patched"},
	} {
		t.Run(c.kind, func(t *testing.T) {
			e2e.EachWay(t, s, func(t *testing.T, s *e2e.Site, stream bool) {
				more := e2e.Fields{"tools": []any{c.tool}, "stream": stream}
				r := s.Respond(e2e.Asks("tool:1 "+c.call, more), nil)
				if r.Status != "completed" || len(r.Output) != 1 || r.Output[0].Type != c.kind || r.Output[0].CallID == "" {
					t.Fatalf("%+v", r)
				}
				_, raw := about(s, "GET", r.ID, nil)
				if err := apischema.Check("Response", []byte(raw)); err != nil {
					t.Error(err)
				}
				var whole struct{ Output []map[string]json.RawMessage }
				if err := json.Unmarshal([]byte(raw), &whole); err != nil || string(whole.Output[0][c.member]) != c.want {
					t.Errorf("%s %v", raw, err)
				}
				more["previous_response_id"] = r.ID
				output := e2e.Fields{"type": c.kind + "_output", "call_id": r.Output[0].CallID, "status": "completed", "output": c.output}
				next := s.Respond(e2e.Asks([]any{output}, more), nil)
				if !strings.Contains(next.Text(), c.heard) {
					t.Errorf("after the output: %q", next.Text())
				}
				// A client without stored responses sends the items back.
				more["previous_response_id"] = nil
				next = s.Respond(e2e.Asks([]any{e2e.Says("user", "go"), whole.Output[0], output}, more), nil)
				if !strings.Contains(next.Text(), c.heard) {
					t.Errorf("with the items: %q", next.Text())
				}
			})
		})
	}
}
