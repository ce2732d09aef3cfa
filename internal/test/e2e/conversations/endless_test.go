package conversations

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/marathon"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// TestEndless lets clients push several times more through a window than it holds, also after the death
// of the app-server: nothing fails, is forgotten, or was not sent before. `make marathon` has more.
func TestEndless(t *testing.T) {
	e2e.WithLogin(t)
	s := e2e.NewUnstarted(t)
	const window = 20_000
	must.OK(t, marathon.SetWindow(s.Plan, s.Model, window))
	s.Serve("")
	s.WaitReady()
	clients, err := filepath.Abs("../clients")
	must.OK(t, err)
	for _, name := range []string{"codex", "codex-openai", "openai", "openai-stored", "openai-compact", "anthropic"} {
		t.Run(name, func(t *testing.T) {
			front, err := marathon.NewFront(s.URL)
			must.OK(t, err)
			defer front.Close()
			place := marathon.Place{
				URL: front.URL, Dir: t.TempDir(), Home: t.TempDir(), Window: window, Codex: e2e.CodexBinary, Clients: clients,
				WebSockets: e2e.Transport == scriptedmodel.WebSocket,
			}
			client, err := marathon.Open(name, place)
			must.OK(t, err)
			o := marathon.Options{
				Model: s.Model, Window: window, Front: front, Dir: place.Dir, Tokens: 2 * window, Step: 240, Calls: 10, Summary: 2000,
				Trouble: []marathon.Trouble{{Name: "a kill", Make: func(context.Context) error {
					e2e.Kill(t, "codex")
					s.At(t).WaitReady()
					return nil
				}}},
				Log: func(line string) { t.Log(line) },
			}
			ctx, cancel := context.WithTimeout(t.Context(), 3*e2e.Deadline)
			defer cancel()
			report := marathon.Run(ctx, client, o)
			must.OK(t, client.Close())
			if err := report.Check(name, o); err != nil {
				t.Error(err)
			}
		})
	}
}
