package chat

import (
	"net/http"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// TestWarmup: over a WebSocket, what Codex sends when a thread starts is used by its
// first turn, whatever the settings of the request: that goes on from it with the
// messages alone. It is not with a response format, which Codex knows with the
// turn only.
func TestWarmup(t *testing.T) {
	e2e.OverOne(t, scriptedmodel.WebSocket)
	s := e2e.NewSite(t, "")
	s.Load(s.Caddyfile(s.Pool("provider_timeout 1m"))) // else a busy machine makes Codex connect once more
	s.WaitSuccessor(1)
	instructions := e2e.Fields{"role": "system", "content": "You are a bird."}
	history := []any{instructions, e2e.Fields{"role": "user", "content": "What?"}, e2e.Fields{"role": "assistant", "content": "This."}, e2e.Fields{"role": "user", "content": "say:Hello"}}
	for _, model := range []string{"gpt-5", s.CatalogueModel(t)} {
		for _, effort := range append([]string{""}, prompt.Efforts...) {
			body := e2e.Fields{"model": model, "messages": history, "tools": []any{e2e.Tool("localSearch")}}
			if effort != "" {
				body["reasoning_effort"] = effort
			}
			checkWarmup(s, body, effort, true)
		}
	}
	checkWarmup(s, e2e.Fields{"model": "gpt-5.5", "messages": history, "verbosity": "high", "service_tier": "priority", "reasoning_effort": "low"}, "low", true)
	checkWarmup(s, e2e.Fields{"model": "gpt-5", "messages": history, "response_format": e2e.Fields{"type": "json_schema", "json_schema": e2e.Fields{
		"name": "x", "strict": true, "schema": e2e.Fields{"type": "object", "properties": e2e.Fields{}, "required": []string{}, "additionalProperties": false},
	}}}, "", false)
}

// checkWarmup checks that there is one warm-up and one request for a turn, and
// whether that goes on from the warm-up.
func checkWarmup(s *e2e.Site, body e2e.Fields, effort string, used bool) {
	s.T.Helper()
	before := s.Model.Stats()
	if response, text := s.Post(e2e.EncodeJSON(body), nil); response.StatusCode != http.StatusOK {
		s.T.Errorf("effort %q: %s", effort, text)
		return
	}
	now := s.Model.Stats()
	if now.Warmups-before.Warmups != 1 || now.Requests-before.Requests != 1 || now.Sockets-before.Sockets != 1 {
		s.T.Errorf("effort %q: %+v, before %+v", effort, now, before)
	}
	warmups := s.Model.Warmups()
	warm := warmups[len(warmups)-1]
	request, _ := s.Model.Last()
	if got := request.PreviousResponseID != ""; got != used {
		s.T.Errorf("effort %q: the request has %d new items and goes on from %q", effort, request.NewItems, request.PreviousResponseID)
	}
	model := body["model"]
	if effort != request.Reasoning.Effort && (model == "gpt-5" || effort != "") {
		s.T.Errorf("%s: the model got the effort %q, want %q", model, request.Reasoning.Effort, effort)
	}
	if used && (warm.Reasoning != request.Reasoning || len(warm.Input)+request.NewItems != len(request.Input)) {
		s.T.Errorf("%s: the warm-up has %+v and %d items, the request %+v and %d new of %d items",
			model, warm.Reasoning, len(warm.Input), request.Reasoning, request.NewItems, len(request.Input))
	}
	if used && model == "gpt-5" && request.NewItems != 3 {
		s.T.Errorf("the request has %d new items", request.NewItems)
	}
}
