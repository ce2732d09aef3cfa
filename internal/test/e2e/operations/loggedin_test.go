package operations

import (
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/planbackend"
)

// TestLoggedIn checks what a site with a plan asks of its back end, at the addresses that
// users have, and nothing else.
func TestLoggedIn(t *testing.T) {
	e2e.WithLogin(t)
	e2e.OverBoth(t, func(t *testing.T) {
		s := e2e.NewSite(t, "")
		for range 2 {
			response, text := s.Post(e2e.ChatBody("say:ok", map[string]any{"tools": []any{e2e.Tool("localSearch")}}), nil)
			if response.StatusCode != http.StatusOK || !strings.Contains(text, "ok") {
				t.Errorf("%s %s", response.Status, text)
			}
		}
		request, _ := s.Model.Last()
		if request.Transport != e2e.Transport || request.Header.Get("Chatgpt-Account-Id") != s.Login.Account {
			t.Errorf("the model was asked over %s with %v", request.Transport, request.Header)
		}
		e2e.CheckTools(t, request.Tools, "localSearch")
		if s.Plan.Count(planbackend.Models) == 0 || s.Plan.Count(planbackend.Issuer) > 0 {
			t.Errorf("the calls were %+v", s.Plan.Calls(planbackend.All))
		}
	})
}
