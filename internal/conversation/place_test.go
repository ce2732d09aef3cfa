package conversation

import (
	"testing"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/appserver"
	"github.com/caddy-codex/caddy-codex/internal/loginstate"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/test/fakeserver"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// TestPlaceStays checks that a turn on an app-server which another one has replaced meanwhile is
// started again with the settings of its own, such as the path of its catalogue.
func TestPlaceStays(t *testing.T) {
	command, env := fakeserver.Command(t, "replaced")
	process := appserver.New(appserver.Config{Command: command, Env: env, Home: t.TempDir()}, nil)
	process.Start()
	defer process.Stop()
	plan := &prompt.Plan{Thread: codexrpc.ThreadStartParams{Model: "known"}}
	turn := &Turn{opener: &Opener{Instructions: InstructionsReplace}, request: Request{Plan: plan}}
	place, err := turn.awaitPlace(t.Context(), Member{Process: process, Login: new(loginstate.Login)})
	must.OK(t, err)
	before := place.settings(plan)
	if before.catalogue == "" || before.provider == "" {
		t.Fatalf("the catalogue is %q, the settings of the provider are %q", before.catalogue, before.provider)
	}
	must.OK(t, process.Restart())
	must.Happen(t, "it is replaced", func() bool { return process.Serving() != place.Conn })
	if after := place.settings(plan); after.catalogue != before.catalogue || after.provider != before.provider {
		t.Errorf("the settings are those of another app-server: %q and %q, not %q and %q", after.catalogue, after.provider, before.catalogue, before.provider)
	}
}
