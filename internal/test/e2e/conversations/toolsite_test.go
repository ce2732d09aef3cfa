package conversations

import (
	"crypto/rand"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

// reload loads other options and returns the name of the configuration. For a moment
// after a reload, the old configuration may still accept connections, and the kernel
// resets those that wait in its listener.
func reload(s *e2e.Site, options string) string {
	s.T.Helper()
	if !strings.Contains(options, "stop_after_tools") {
		options += "\n" + e2e.Patient
	}
	name := rand.Text()
	s.Load(s.Wrap("header " + e2e.LoadedHeader + " " + name + "\ncodex {\n" + s.AppServer() + "\n" + options + "\n}"))
	return name
}

// useTool returns a block as the scripted model writes it.
func useTool(name, query string) string {
	return "<use_tool>\n<name>" + name + "</name>\n<query>" + query + "</query>\n</use_tool>"
}
