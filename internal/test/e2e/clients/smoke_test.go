package clients

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

// TestSmoke runs the smoke check against a server that works, and against such as do not.
func TestSmoke(t *testing.T) {
	s := e2e.NewSite(t, "api_key k")
	for name, c := range map[string]struct {
		url, key, want string
		ok             bool
	}{
		"works":        {s.URL, "k", "two calls of a tool, and an answer to their results", true},
		"with /v1":     {s.URL + "/v1/", "k", "all is well", true},
		"wrong key":    {s.URL, "x", "models: status 401", false},
		"nobody there": {"http://" + e2e.FreeAddr(t), "k", "health: no answer", false},
		"another path": {s.URL + "/other", "k", "health: status 404", false},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(e2e.Context(t), "../../../../scripts/smoke", c.url)
			cmd.Env = append(os.Environ(), "KEY="+c.key, "MODEL=")
			out, err := cmd.CombinedOutput()
			if (err == nil) != c.ok || !strings.Contains(string(out), c.want) {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}
