package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/needs"
)

// Claude is a Claude Code that can reach nothing but a server of this machine.
type Claude struct {
	Path string   // of the program
	Dir  string   // where it works
	Env  []string // its environment
}

// NewClaude returns a Claude Code for the API at url, with a home of its own and more variables. It does not ask
// who has made the files of Dir, nor for its first settings.
func NewClaude(t testing.TB, url string, env ...string) *Claude {
	t.Helper()
	path, err := filepath.Abs("../clients/node_modules/@anthropic-ai/claude-code-linux-x64/claude")
	if err == nil {
		_, err = exec.LookPath(path)
	}
	if err != nil {
		needs.Missing(t, "Claude Code is not installed for this system: run `make deps`")
	}
	dir, home := t.TempDir(), t.TempDir()
	config := fmt.Sprintf(`{"hasCompletedOnboarding":true,"projects":{%q:{"hasTrustDialogAccepted":true}}}`, dir)
	must.OK(t, os.WriteFile(filepath.Join(home, ".claude.json"), []byte(config), 0o600))
	return &Claude{Path: path, Dir: dir, Env: append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "CLAUDE_CONFIG_DIR=" + home,
		"ANTHROPIC_BASE_URL=" + url, "ANTHROPIC_AUTH_TOKEN=unused", "IS_SANDBOX=1",
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_TELEMETRY=1", "DISABLE_ERROR_REPORTING=1", "DISABLE_AUTOUPDATER=1",
		"HTTP_PROXY=http://127.0.0.1:9", "HTTPS_PROXY=http://127.0.0.1:9", "NO_PROXY=127.0.0.1,localhost", // nothing is there
	}, env...)}
}

// Command returns the command that runs Claude Code until ctx ends.
func (c *Claude) Command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.Path, args...)
	cmd.Dir, cmd.Env = c.Dir, c.Env
	return cmd
}
