package clients

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

// newContinue returns a CLI of Continue with the settings of its page, and other values in them.
func newContinue(t *testing.T, s *e2e.Site, replaced ...string) *agent {
	t.Helper()
	c := newAgent(t, "@continuedev/cli/dist/cn.js")
	const page = "../../../../docs/clients/continue.md"
	config := ""
	for _, b := range blocksOf(t, page) {
		if b.lang == "yaml" {
			config = b.text
		}
	}
	config = strings.NewReplacer(append(replaced, "http://localhost:8080", s.URL)...).Replace(config)
	path := filepath.Join(t.TempDir(), "config.yaml")
	e2e.WriteFile(t, path, config)
	c.command = append(c.command, "--config", path, "-p")
	return c
}

// TestContinue runs sessions of Continue's CLI, which always streams, with the settings of its page.
func TestContinue(t *testing.T) {
	s := e2e.NewSite(t, "api_key sk-mine")
	c := newContinue(t, s)
	e2e.WriteFile(t, filepath.Join(c.dir, "a.txt"), "apple\n")
	made := filepath.Join(c.dir, "made.txt")
	printed, failed := c.run("--auto", `say:I look.; tool:Read {"filepath":"a.txt"}
then
tool:Write `+e2e.EncodeJSON(e2e.Fields{"filepath": made, "content": "pear\n"})+`
then
verbatim:`+multibyte)
	if failed || printed != strings.TrimSpace(multibyte) {
		t.Errorf("it fails: %t, and prints %q", failed, printed)
	}
	if text := e2e.ReadFile(t, made); text != "pear\n" {
		t.Errorf("it writes %q", text)
	}
	if printed, failed := c.run("--auto", "--resume", "say:Bye."); failed || printed != "Bye." {
		t.Errorf("it fails: %t, and goes on with %q", failed, printed)
	}
	checkSession(t, s, "a.txt", 4, "apple", "I look.", "Bye.")
	c.killed(s, "hang")

	for name, c := range map[string]struct {
		from, to, prompt, want string
	}{
		"a wrong key":   {"sk-mine", "wrong", "Hello.", "401"},
		"no such model": {"model: default", "model: no-such-model", "http:404", "The models here are"},
	} {
		t.Run(name, func(t *testing.T) {
			printed, failed := newContinue(t, s.At(t), c.from, c.to).run(c.prompt)
			if !failed || !strings.Contains(printed, c.want) {
				t.Errorf("it fails: %t, and prints %q", failed, printed)
			}
		})
	}
}
