package clients

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

// copilotKey is the key of the site in the tests of Copilot CLI.
const copilotKey = "sk-mine"

// newCopilot returns a Copilot CLI for a site. It needs no account.
func newCopilot(t *testing.T, s *e2e.Site, env ...string) *agent {
	t.Helper()
	return newAgent(t, "@github/copilot-linux-x64/copilot", append([]string{
		"COPILOT_PROVIDER_BASE_URL=" + s.URL + "/v1", "COPILOT_PROVIDER_API_KEY=" + copilotKey, "COPILOT_MODEL=default",
		"COPILOT_AUTO_UPDATE=false",
	}, env...)...)
}

// TestCopilotCLI runs sessions of Copilot CLI, which always streams, in each way that it can ask.
func TestCopilotCLI(t *testing.T) {
	s := e2e.NewSite(t, "api_key "+copilotKey)
	newCopilot(t, s).run("--version") // unpacks it, once for all

	ways := map[string][]string{
		"chat":      nil,
		"responses": {"COPILOT_PROVIDER_WIRE_API=responses"},
		"websocket": {"COPILOT_PROVIDER_WIRE_API=responses", "COPILOT_PROVIDER_TRANSPORT=websockets"},
		"messages":  {"COPILOT_PROVIDER_TYPE=anthropic", "COPILOT_PROVIDER_BASE_URL=" + s.URL},
	}
	t.Run("sessions", func(t *testing.T) {
		for way, env := range ways {
			t.Run(way, func(t *testing.T) {
				t.Parallel()
				testCopilotSession(t, s.At(t), way, env)
			})
		}
	})
	newCopilot(t, s).killed(s, "-p", "hang")
	for name, c := range map[string]struct{ env, prompt, want string }{
		"a wrong key":   {"COPILOT_PROVIDER_API_KEY=wrong", "Hello.", "Authentication failed"},
		"a spent plan":  {"", "limit:3600 plus", "usage limit"},
		"no such model": {"COPILOT_MODEL=no-such-model", "http:404", "not found on provider"},
	} {
		t.Run(name, func(t *testing.T) {
			printed, failed := newCopilot(t, s.At(t), c.env).run("-s", "-p", c.prompt)
			if !failed || !strings.Contains(printed, c.want) {
				t.Errorf("it fails: %t, and prints %q", failed, printed)
			}
		})
	}
}

// testCopilotSession lets Copilot CLI read and write a file, and goes on in another process.
func testCopilotSession(t *testing.T, s *e2e.Site, way string, env []string) {
	c := newCopilot(t, s, env...)
	mark := way + ".txt"
	e2e.WriteFile(t, filepath.Join(c.dir, mark), "apple\n")
	made := filepath.Join(c.dir, "made.txt")
	printed, failed := c.run("-s", "--allow-all-tools", "-p", `say:I look.; tool:view `+
		e2e.EncodeJSON(e2e.Fields{"path": filepath.Join(c.dir, mark)})+`
then
tool:create `+e2e.EncodeJSON(e2e.Fields{"path": made, "file_text": "pear\n"})+`
then
verbatim:`+multibyte)
	if failed || !strings.Contains(printed, "I look.") || !strings.HasSuffix(printed, strings.TrimSpace(multibyte)) {
		t.Errorf("it fails: %t, and prints %q", failed, printed)
	}
	if text := e2e.ReadFile(t, made); text != "pear\n" {
		t.Errorf("it writes %q", text)
	}
	if printed, failed := c.run("-s", "--continue", "-p", "say:Bye."); failed || printed != "Bye." {
		t.Errorf("it fails: %t, and goes on with %q", failed, printed)
	}
	checkSession(t, s, mark, 4, "apple", "I look.", "Bye.")
}
