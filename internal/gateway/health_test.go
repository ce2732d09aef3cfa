package gateway

import (
	"testing"

	"github.com/caddy-codex/caddy-codex/codexrpc/appserver"
	"github.com/caddy-codex/caddy-codex/internal/loginstate"
)

// TestReadinessOfAccount checks that GET /readyz, which needs no key, does not show what Codex says of
// this machine.
func TestReadinessOfAccount(t *testing.T) {
	const said = `codex says "failed to read /home/ann/.codex/auth.json: error sending request for url (https://proxy.internal:3128/x?key=k)"`
	const want = `codex says "failed to read [path]: error sending request"`
	if got := memberOf(appserver.Status{Account: said}, new(loginstate.Login)).Account; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
