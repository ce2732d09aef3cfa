package status

import (
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/appserver"
)

// TestPublicAccount checks that a page does not show what Codex says of this machine.
func TestPublicAccount(t *testing.T) {
	all := AppServer{Status: appserver.Status{Account: "codex says: /home/ann/.codex/auth.json at https://internal:8443/x"}}
	if got := all.Public("").Account; got != "codex says: [path] at [url]" {
		t.Error(got)
	}
}
