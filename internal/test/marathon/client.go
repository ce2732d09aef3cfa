package marathon

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/codexhome"
	"github.com/caddy-codex/caddy-codex/internal/test/planbackend"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// Client is a session of a client.
type Client interface {
	// Ask goes on with a prompt, and returns the client's answer.
	Ask(ctx context.Context, prompt string) (string, error)
	// Call returns a directive to call the client's tool with a command of the shell.
	Call(command string) string
	// Close ends the session.
	Close() error
}

// Place is where a client works.
type Place struct {
	// URL is the gateway's, Dir where tools run, Home an empty directory.
	URL, Dir, Home string
	// Window is that of the model, in tokens.
	Window int
	// Codex is the program of the Codex CLI. Clients is the directory of the other clients.
	Codex, Clients string
	// WebSockets lets the Codex CLI use them.
	WebSockets bool
}

// Names are the clients that Open knows.
var Names = []string{"codex", "codex-openai", "claude", "agent", "openai", "openai-stored", "openai-socket", "openai-compact", "anthropic"}

// Open begins a session of a client:
//
//	codex           the Codex CLI, which summarises by itself
//	codex-openai    the Codex CLI with a provider that is called OpenAI, which summarises for it
//	claude          Claude Code
//	agent           the Agent SDK with Claude Code
//	openai          OpenAI's SDK with the whole history and context_management
//	openai-stored   OpenAI's SDK with previous_response_id and context_management
//	openai-socket   the same over WebSockets
//	openai-compact  OpenAI's SDK with responses.compact
//	anthropic       Anthropic's SDK with the edit compact_20260112
func Open(name string, p Place) (Client, error) {
	switch name {
	case "codex":
		return newCodex(p, "")
	case "codex-openai":
		return newCodex(p, "OpenAI")
	case "claude":
		return &claude{Place: p}, nil
	}
	return newScript(name, p)
}

// environ returns the variables of a client that can reach the gateway alone.
func (p Place) environ(more ...string) []string {
	return append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + p.Home,
		"HTTP_PROXY=http://127.0.0.1:9", "HTTPS_PROXY=http://127.0.0.1:9", "NO_PROXY=127.0.0.1,localhost", // nothing is there
	}, more...)
}

// claudeEnviron is that of Claude Code.
func (p Place) claudeEnviron() []string {
	return p.environ("CLAUDE_CONFIG_DIR="+filepath.Join(p.Home, "claude"), "ANTHROPIC_BASE_URL="+p.URL, "ANTHROPIC_AUTH_TOKEN=unused",
		"IS_SANDBOX=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_TELEMETRY=1", "DISABLE_ERROR_REPORTING=1", "DISABLE_AUTOUPDATER=1",
		fmt.Sprintf("CLAUDE_CODE_AUTO_COMPACT_WINDOW=%d", p.Window))
}

func (p Place) claude() string {
	return filepath.Join(p.Clients, "node_modules/@anthropic-ai/claude-code-linux-x64/claude")
}

// limit is where SDKs have their history summarised.
func (p Place) limit() int { return p.Window * 4 / 5 }

// codex is the Codex CLI, which is started for each prompt.
type codex struct {
	Place
	begun bool
}

func newCodex(p Place, provider string) (*codex, error) {
	return &codex{Place: p}, codexhome.Write(p.Home, p.URL+"/v1", codexhome.Options{
		Name: provider, WebSockets: p.WebSockets, More: fmt.Sprintf("model_context_window = %d", p.Window),
	})
}

func (c *codex) Ask(ctx context.Context, prompt string) (string, error) {
	answer := filepath.Join(c.Home, "answer")
	args := []string{"exec", "--skip-git-repo-check", "--sandbox", "danger-full-access", "--cd", c.Dir, "--model", model, "--output-last-message", answer}
	if c.begun {
		args = append(args, "resume", "--last")
	}
	command := exec.CommandContext(ctx, c.Codex, append(args, prompt)...)
	command.Dir, command.Env = c.Dir, c.environ("CODEX_HOME="+c.Home)
	output, err := command.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("codex: %w: %s", err, tail(output))
	}
	c.begun = true
	text, err := os.ReadFile(answer)
	return string(text), errors.Join(err, os.Remove(answer))
}

const (
	// model is one with functions in the ordinary form.
	model = "gpt-5.5"
	// sdkModel is what SDKs ask: the same with the window of the session.
	sdkModel = "gpt-marathon"
)

// SetWindow gives the models of a plan, and what they are scripted by, a window for the clients of this package.
func SetWindow(plan *planbackend.Backend, scripted *scriptedmodel.Server, tokens int) error {
	scripted.SetWindow(tokens)
	return plan.AddModel(sdkModel, model, map[string]any{"context_window": tokens, "max_context_window": tokens})
}

// tail returns the end of what a client has said.
func tail(output []byte) []byte { return output[max(0, len(output)-1000):] }

func (*codex) Call(command string) string { return call("client_exec_command", "cmd", command) }

func (*codex) Close() error { return nil }

func call(tool, argument, command string) string {
	return fmt.Sprintf("tool:1 %s {%q:%q}", tool, argument, command)
}

// claude is Claude Code, which is started for each prompt.
type claude struct {
	Place
	begun bool
}

func (c *claude) Ask(ctx context.Context, prompt string) (string, error) {
	args := []string{"-p", prompt, "--output-format", "json", "--allowedTools", "Bash"}
	if c.begun {
		args = append(args, "--continue")
	}
	command := exec.CommandContext(ctx, c.claude(), args...)
	command.Dir, command.Env = c.Dir, c.claudeEnviron()
	var stderr bytes.Buffer
	command.Stderr = &stderr
	output, err := command.Output()
	var result struct {
		IsError bool `json:"is_error"`
		Result  string
	}
	if wrong := json.Unmarshal(output, &result); err != nil || wrong != nil || result.IsError {
		return "", fmt.Errorf("claude: %w: %s%s", cmp.Or(err, wrong, errors.New("it has failed")), tail(output), tail(stderr.Bytes()))
	}
	c.begun = true
	return result.Result, nil
}

func (*claude) Call(command string) string { return call("Bash", "command", command) }

func (*claude) Close() error { return nil }

// script is a client in JavaScript, which has the whole session.
type script struct {
	tool    string
	command *exec.Cmd
	prompts io.WriteCloser
	answers *bufio.Reader
	stderr  *os.File
}

func newScript(name string, p Place) (*script, error) {
	stderr, err := os.Create(filepath.Join(p.Home, "stderr"))
	if err != nil {
		return nil, err
	}
	s := &script{tool: "run_command", stderr: stderr}
	s.command = exec.Command("node", filepath.Join(p.Clients, "endless.js"), name, p.URL, fmt.Sprint(p.limit()), sdkModel, p.claude())
	s.command.Dir, s.command.Env, s.command.Stderr = p.Dir, p.environ(), stderr
	if name == "agent" {
		s.tool, s.command.Env = "Bash", p.claudeEnviron()
	}
	prompts, err := s.command.StdinPipe()
	if err != nil {
		return nil, err
	}
	answers, err := s.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.prompts, s.answers = prompts, bufio.NewReader(answers)
	return s, s.command.Start()
}

func (s *script) Ask(ctx context.Context, prompt string) (string, error) {
	defer context.AfterFunc(ctx, func() { _ = s.command.Process.Kill() })()
	line, err := json.Marshal(prompt)
	if err == nil {
		_, err = s.prompts.Write(append(line, '\n'))
	}
	var answer []byte
	if err == nil {
		answer, err = s.answers.ReadBytes('\n')
	}
	var said struct{ Answer, Error string }
	if err == nil {
		err = json.Unmarshal(answer, &said)
	}
	if err == nil && said.Error != "" {
		err = errors.New(said.Error)
	}
	if err != nil {
		said, _ := os.ReadFile(s.stderr.Name())
		return "", fmt.Errorf("%w: %s", err, tail(said))
	}
	return said.Answer, nil
}

func (s *script) Call(command string) string { return call(s.tool, "command", command) }

// Close ends the script, and kills it if it does not end soon.
func (s *script) Close() error {
	err := s.prompts.Close()
	timer := time.AfterFunc(10*time.Second, func() { _ = s.command.Process.Kill() })
	defer timer.Stop()
	return errors.Join(err, s.command.Wait(), s.stderr.Close())
}
