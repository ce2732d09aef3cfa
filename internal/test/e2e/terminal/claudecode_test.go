package terminal

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
	"github.com/caddy-codex/caddy-codex/internal/test/terminal"
)

// claudeSettings are those of docs/clients/claude-code.md.
var claudeSettings = []string{
	"CLAUDE_CODE_AUTO_MODE_SERVER=0", "CLAUDE_CODE_AUTO_COMPACT_WINDOW=272000", "CLAUDE_CODE_ENABLE_GATEWAY_MODEL_DISCOVERY=1",
}

// startClaude starts Claude Code in a terminal, and waits until it reads what its user types.
func startClaude(t *testing.T, c *e2e.Claude, args ...string) *terminal.Terminal {
	t.Helper()
	term := terminal.Start(t, c.Command(t.Context(), args...))
	term.Wait("shift+tab to cycle")
	return term
}

// bash returns a call that runs a command.
func bash(command string) scriptedmodel.Call {
	return scriptedmodel.Call{Name: "Bash", Arguments: fmt.Sprintf(`{"command":%q,"description":"run it"}`, command)}
}

// TestClaudeCodeTerminal: a session in a terminal, with what a user does there.
func TestClaudeCodeTerminal(t *testing.T) {
	s := e2e.NewSite(t, "")
	c := e2e.NewClaude(t, s.URL, claudeSettings...)
	hold := make(chan struct{})
	defer close(hold)
	answer(t, s,
		saying("say one", "It is 1."),
		saying("say two", "It is 2."),
		doing("take long", scriptedmodel.Say("It begins.\n\nIt goes on.\n\nAnd on"), scriptedmodel.Hold(hold)),
		saying("say four", "It is 4."),
		saying("create a detailed summary of", "<summary>\nThe numbers are 1, 2 and 4.\n</summary>"),
		saying("say five", "It is 5."),
		saying("say six", "It is 6."),
		saying("say seven", "It is 7."),
	)
	term := startClaude(t, c)
	term.Enter("say one")
	term.Wait("It is 1.")
	term.Enter("say two")
	term.Wait("It is 2.")
	term.Enter("take long")
	term.Wait("It begins")
	term.Send(terminal.KeyEscape)
	term.Wait("Interrupted")
	term.Enter("say four")
	term.Wait("It is 4.")
	term.Enter("/context")
	term.Wait("/272k tokens")
	term.Enter("/compact")
	term.Wait("Compacted")
	term.Enter("say five")
	term.Wait("It is 5.")
	term.Enter("/model")
	term.Until("the server's models", func(screen string) bool { return choice.MatchString(screen) })
	number, name := model(term.Screen())
	term.Send(number)
	term.Wait("Switch model?")
	term.Press(terminal.KeyEnter, "Set model to "+name)
	term.Enter("say six")
	term.Wait("It is 6.")
	if request, _ := s.Model.Last(); !strings.EqualFold(request.Model, name) {
		t.Errorf("%s asks for %s", name, request.Model)
	}
	term.Enter("/exit")
	term.WaitEnd()

	term = startClaude(t, c, "--continue")
	term.Wait("It is 6.")
	term.Enter("say seven")
	term.Wait("It is 7.")
	if request, _ := s.Model.Last(); !strings.Contains(string(request.Body), "The numbers are 1, 2 and 4.") {
		t.Errorf("the model was not given the summary: %s", request.Body)
	}
}

// choice is a line of /model with a model of the server.
var choice = regexp.MustCompile(`(\d+)\. +(\S+) +From gateway`)

// model returns the first model of the server that /model shows, and its number.
func model(screen string) (number, name string) {
	match := choice.FindStringSubmatch(screen)
	return match[1], match[2]
}

// TestClaudeCodeJudges: in its default mode Claude Code lets a model judge a command that is not harmless, and
// runs it or tells why it does not. It does not ask for a check of the server, which would end in a question.
func TestClaudeCodeJudges(t *testing.T) {
	s := e2e.NewSite(t, "")
	c := e2e.NewClaude(t, s.URL, claudeSettings...)
	answer(t, s,
		saying("/evil; touch", "<severity>90</severity>"),
		doing("/good; touch", scriptedmodel.Reason("It is harmless."), scriptedmodel.Say("<severity>10</severity>")),
		saying("good has run", "It has run."),
		saying("denied", "It was not allowed."),
		doing("do good", bash("curl -s http://127.0.0.1:9/good; touch good; echo good has run")),
		doing("do evil", bash("curl -s http://127.0.0.1:9/evil; touch evil; echo evil has run")),
	)
	term := startClaude(t, c)
	term.Enter("do good")
	term.Wait("It has run.")
	term.Enter("do evil")
	term.Wait("It was not allowed.")
}

// TestClaudeCodeAsks: in its mode default, Claude Code asks its user before it runs a command.
func TestClaudeCodeAsks(t *testing.T) {
	s := e2e.NewSite(t, "")
	c := e2e.NewClaude(t, s.URL, claudeSettings...)
	answer(t, s, saying("it is done", "It has run."), doing("do it", bash("touch it && echo it is done")))
	term := terminal.Start(t, c.Command(t.Context(), "--permission-mode", "default"))
	term.Wait("for shortcuts")
	term.Enter("do it")
	term.Wait("Do you want to proceed?")
	term.Press(terminal.KeyEnter, "It has run.")
}
