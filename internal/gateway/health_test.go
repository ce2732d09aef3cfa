package gateway

import (
	"encoding/json"
	"testing"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/appserver"
	"github.com/caddy-codex/caddy-codex/internal/loginstate"
)

// TestReadinessOfLogin checks that GET /readyz, which needs no key, says what is wrong with a login,
// and nothing of how Codex has found that out.
func TestReadinessOfLogin(t *testing.T) {
	const said = `codex says "failed to read /home/ann/.codex/auth.json: selected workspace missing from routing discovery"`
	failure := &codexrpc.TurnError{Code: "other", Message: said}
	login := new(loginstate.Login)
	login.Fail("", failure, 0)
	encoded, err := json.Marshal(memberOf(appserver.Status{State: appserver.StateReady, Account: said, AccountFailure: failure}, login))
	if want := `{"app_server":"ready","login":"failing","reason":"the login's account has left its workspace"}`; err != nil || string(encoded) != want {
		t.Errorf("%s, want %s, %v", encoded, want, err)
	}
}
