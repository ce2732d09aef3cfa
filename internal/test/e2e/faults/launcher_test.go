package faults

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/rig"
)

// TestNativeCodex checks that Caddy starts the native codex also where the command is
// the launcher of the npm package, so that no Node runs beside it.
func TestNativeCodex(t *testing.T) {
	s := e2e.NewSite(t, "")
	if response, text := s.Post(e2e.ChatBody("say:native", nil), nil); response.StatusCode != http.StatusOK {
		t.Error(response.Status, text)
	}
	e2e.WaitFor(t, "the run for the catalogue to end", func() bool { return len(e2e.Children()) == 1 })
	pid := rig.Below(os.Getpid())[0]
	if name := rig.Name(pid); !strings.HasPrefix(name, "codex") {
		t.Errorf("the app-server is a %q", name)
	}
}
