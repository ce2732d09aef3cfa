package e2e

import (
	"net/http"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// TestWarmup: over a WebSocket, what Codex sends when a thread starts is used by its
// first turn, whatever the settings of the request: that goes on from it with the
// messages alone. It is not with a response format, which Codex knows with the
// turn only.
func TestWarmup(t *testing.T) {
	overOne(t, scriptedmodel.WebSocket)
	s := newSite(t, "")
	instructions := fields{"role": "system", "content": "You are a bird."}
	history := []any{instructions, fields{"role": "user", "content": "What?"}, fields{"role": "assistant", "content": "This."}, fields{"role": "user", "content": "say:Hello"}}
	for _, model := range []string{"gpt-5", s.catalogueModel(t)} {
		for _, effort := range append([]string{""}, prompt.Efforts...) {
			body := fields{"model": model, "messages": history, "tools": []any{tool("localSearch")}}
			if effort != "" {
				body["reasoning_effort"] = effort
			}
			s.checkWarmup(body, effort, true)
		}
	}
	s.checkWarmup(fields{"model": "gpt-5.5", "messages": history, "verbosity": "high", "service_tier": "priority", "reasoning_effort": "low"}, "low", true)
	s.checkWarmup(fields{"model": "gpt-5", "messages": history, "response_format": fields{"type": "json_schema", "json_schema": fields{
		"name": "x", "strict": true, "schema": fields{"type": "object", "properties": fields{}, "required": []string{}, "additionalProperties": false},
	}}}, "", false)
}

// checkWarmup checks that there is one warm-up and one request for a turn, and
// whether that goes on from the warm-up.
func (s *site) checkWarmup(body fields, effort string, used bool) {
	s.t.Helper()
	before := s.model.Stats()
	if response, text := s.post(encodeJSON(body), nil); response.StatusCode != http.StatusOK {
		s.t.Errorf("effort %q: %s", effort, text)
		return
	}
	now := s.model.Stats()
	if now.Warmups-before.Warmups != 1 || now.Requests-before.Requests != 1 || now.Sockets-before.Sockets != 1 {
		s.t.Errorf("effort %q: %+v, before %+v", effort, now, before)
	}
	warmups := s.model.Warmups()
	warm := warmups[len(warmups)-1]
	request, _ := s.model.Last()
	if got := request.PreviousResponseID != ""; got != used {
		s.t.Errorf("effort %q: the request has %d new items and goes on from %q", effort, request.NewItems, request.PreviousResponseID)
	}
	model := body["model"]
	if effort != request.Reasoning.Effort && (model == "gpt-5" || effort != "") {
		s.t.Errorf("%s: the model got the effort %q, want %q", model, request.Reasoning.Effort, effort)
	}
	if used && (warm.Reasoning != request.Reasoning || len(warm.Input)+request.NewItems != len(request.Input)) {
		s.t.Errorf("%s: the warm-up has %+v and %d items, the request %+v and %d new of %d items",
			model, warm.Reasoning, len(warm.Input), request.Reasoning, request.NewItems, len(request.Input))
	}
	if used && model == "gpt-5" && request.NewItems != 3 {
		s.t.Errorf("the request has %d new items", request.NewItems)
	}
}
