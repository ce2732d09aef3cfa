package faults

import (
	"bufio"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// TestDisconnect checks that turns end when their client leaves, at any time.
func TestDisconnect(t *testing.T) { e2e.OverBoth(t, testDisconnect) }

func testDisconnect(t *testing.T) {
	s := e2e.NewSite(t, "")
	for name, c := range map[string]struct {
		prompt string
		stream bool
		until  string // text that the client waits for before it leaves; if empty, it waits for the model's request
		n      int    // choices
	}{
		"before the first token":         {"hang", true, "", 1},
		"before the first token, whole":  {"hang", false, "", 1},
		"in the middle":                  {"say:Half of it; hang", true, "Half", 1},
		"in the middle, whole":           {"say:Half of it; hang", false, "", 1},
		"while a call is being written":  {`tool:localSearch {"query":"x"}; hang`, true, "", 1},
		"while the model is still quiet": {"firstdelay=10m; say:never", true, "", 1},
		"several choices":                {"hang", true, "", 5},
		"several choices, whole":         {"say:Half of it; hang", false, "", 8},
	} {
		t.Run(name, func(t *testing.T) {
			s := s.At(t)
			before := s.Model.Stats()
			ctx, cancel := context.WithCancel(e2e.Context(t))
			defer cancel()
			body := e2e.ChatBody(c.prompt, map[string]any{"stream": c.stream, "n": c.n, "tools": []any{e2e.Tool("localSearch")}})
			gone := make(chan struct{})
			go func() {
				defer close(gone)
				response, err := s.Chat(ctx, body, nil)
				if err != nil {
					return // the client left before the answer
				}
				defer response.Body.Close()
				lines := bufio.NewScanner(response.Body)
				for lines.Scan() {
					if c.until != "" && strings.Contains(lines.Text(), c.until) {
						cancel()
					}
				}
				_ = lines.Err() // it is the cancellation
			}()
			if c.until == "" {
				if _, err := s.Model.Wait(e2e.Context(t), func(now scriptedmodel.Stats) bool { return now.Requests >= before.Requests+c.n }); err != nil {
					t.Fatal(err)
				}
				cancel()
			}
			start := time.Now()
			if err := s.Model.WaitClosed(e2e.Context(t), before.ClosedEarly+c.n); err != nil {
				t.Fatal("the turn was not interrupted:", err)
			}
			t.Logf("interrupted after %s", time.Since(start).Round(time.Millisecond))
			e2e.Receive(t, "the client to leave", gone)
		})
	}
}
