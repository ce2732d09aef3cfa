package e2e

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestSmoke runs the smoke check against a server that works, and against such as do not.
func TestSmoke(t *testing.T) {
	s := newSite(t, "api_key k")
	for name, c := range map[string]struct {
		url, key, want string
		ok             bool
	}{
		"works":        {s.url, "k", "all is well", true},
		"with /v1":     {s.url + "/v1/", "k", "all is well", true},
		"wrong key":    {s.url, "x", "models: status 401", false},
		"nobody there": {"http://" + freeAddr(t), "k", "health: no answer", false},
		"another path": {s.url + "/other", "k", "health: status 404", false},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(testContext(t), "../../../scripts/smoke", c.url)
			cmd.Env = append(os.Environ(), "KEY="+c.key, "MODEL=")
			out, err := cmd.CombinedOutput()
			if (err == nil) != c.ok || !strings.Contains(string(out), c.want) {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}
