package responses

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/codexhome"
	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/planbackend"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
	"github.com/caddy-codex/caddy-codex/internal/test/terminal"
)

// codexTerminal is the Codex CLI in a terminal, whose provider is a site.
type codexTerminal struct {
	*terminal.Terminal
	s         *e2e.Site
	home, dir string
}

func newCodexTerminal(s *e2e.Site, provider string) *codexTerminal {
	opts := codexhome.Options{Name: provider, More: "chatgpt_base_url = '" + s.URL + "/backend-api'\nfeatures.daemon_auto_start = false\ndisable_paste_burst = true\n"}
	c := &codexTerminal{s: s, home: codexHome(s, opts), dir: s.T.TempDir()}
	_, login, _ := strings.Cut(e2e.ReadFile(s.T, "../../../../docs/clients/codex-cli.md"), "```json\n")
	login, _, _ = strings.Cut(login, "```")
	e2e.WriteFile(s.T, filepath.Join(c.home, "auth.json"), login)
	return c
}

// start starts the CLI with these arguments, and waits until it reads.
func (c *codexTerminal) start(arguments ...string) {
	command := exec.Command(e2e.CodexBinary, append(arguments, "--cd", c.dir,
		"--ask-for-approval", "on-request", "--sandbox", "workspace-write",
		"--config", "model_providers.scripted.requires_openai_auth=true")...)
	command.Env = append(os.Environ(), "CODEX_HOME="+c.home, "HOME="+c.home)
	c.Terminal = terminal.Start(c.s.T, command)
	c.Wait("Ask Codex to do anything")
}

// ask enters a prompt, and waits for the end of the turn, which the CLI shows behind the answer.
func (c *codexTerminal) ask(prompt, answer string) {
	c.s.T.Helper()
	c.Enter(prompt)
	c.ended(prompt, answer)
}

func (c *codexTerminal) ended(prompt, answer string) {
	c.s.T.Helper()
	c.Until("the end of "+prompt, func(screen string) bool {
		_, turn, _ := strings.Cut(screen, "› "+prompt)
		_, end, answered := strings.Cut(turn, "• "+answer)
		return answered && strings.Contains(end, "Worked for")
	})
}

// TestCodexTerminal is what a user of the CLI does in a terminal.
func TestCodexTerminal(t *testing.T) {
	s := e2e.NewUnstarted(t)
	limits := []string{"not available for this account"}
	if s.Login != nil {
		s.Login.SetUse(planbackend.Use{Primary: 41, Secondary: 13, Balance: "12.50"})
		limits = []string{"59% left (resets", "87% left (resets", "13 credits"}
	}
	s.Serve("api_key sk-mine")
	s.WaitReady()
	const touch = `tool:1 client_exec {"input":"text(await tools.exec_command({cmd:'touch made',sandbox_permissions:'require_escalated'}))"}`
	for _, provider := range []string{"caddy-codex", "OpenAI"} {
		t.Run(provider, func(t *testing.T) {
			cli := newCodexTerminal(s.At(t), provider)
			cli.start("--model", "gpt-6.1-terra")
			cli.ask("say:The first answer.", "The first answer.")
			cli.Enter(touch + "; then; say:It is made.")
			cli.Wait("Would you like to run")
			cli.Send("y")
			cli.ended("tool:1", "It is made.")
			if _, err := os.Stat(filepath.Join(cli.dir, "made")); err != nil {
				t.Error(err)
			}
			cli.Enter("say:The second one; hang")
			cli.Wait("• The second one")
			cli.Send(terminal.KeyEscape)
			cli.Wait("interrupted")
			cli.Enter("/status")
			for _, limit := range limits {
				cli.Wait(limit)
			}
			cli.Enter("/model")
			cli.Wait("Select Model and Effort")
			cli.Send("1")
			cli.Wait("Select Reasoning Level")
			cli.Send(terminal.KeyEnter)
			cli.Wait("Model changed to")
			cli.ask("say:Another model.", "Another model.")
			cli.Enter("/compact")
			cli.Wait("Context compacted")
			cli.Enter("/quit")
			cli.WaitEnd()

			cli.start("resume", "--last")
			cli.Wait("• Another model.")
			cli.ask("say:Resumed.", "Resumed.")
			all := s.Model.Requests()
			asked := slices.IndexFunc(all, func(r scriptedmodel.Request) bool { return r.UserText() == "say:Resumed." })
			if last := all[asked]; last.Model == "gpt-6.1-terra" || !strings.Contains(string(last.Body), "say:The first answer.") {
				t.Errorf("the model was sent %s", last.Body)
			}
		})
	}
}
