package clients

import (
	"os"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/browser"
	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

func TestMain(m *testing.M) { os.Exit(e2e.Main(browsing{m})) }

// browsing closes the browser after the tests.
type browsing struct{ *testing.M }

// Run implements the parameter of [e2e.Main].
func (b browsing) Run() int {
	defer browser.Close()
	return b.M.Run()
}
