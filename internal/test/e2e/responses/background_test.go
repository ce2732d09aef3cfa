package responses

import (
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// TestBackgroundResumed checks that a response in the background continues without its
// client, who can read the rest of the stream later, even after a reload.
func TestBackgroundResumed(t *testing.T) {
	s := e2e.NewSite(t, "")
	stream, id := begin(s, e2e.Fields{"stream": true, "background": true}, nil)
	if err := stream.Body.Close(); err != nil {
		t.Fatal(err)
	}
	s.Load(s.Caddyfile("keepalive 9s"))
	s.WaitReady()
	resumed := s.Do(http.MethodGet, "/v1/responses/"+id+"?stream=true&starting_after=1", nil, nil)
	s.WaitOpen(1) // the model continues
	if status, body := about(s, http.MethodPost, id+"/cancel", nil); status != http.StatusOK || s.ParseResponse([]byte(body)).Status != "cancelled" {
		t.Fatal(status, body)
	}
	rest := s.Read(resumed)
	if !strings.Contains(rest, `"sequence_number":2,`) || strings.Contains(rest, "event: response.created") || !strings.Contains(rest, "event: response.failed") {
		t.Errorf("the rest is %s", rest)
	}
	whole := s.Read(s.Do(http.MethodGet, "/v1/responses/"+id+"?stream=true", nil, nil))
	if !strings.HasSuffix(whole, rest) || !strings.HasPrefix(whole, "event: response.created") {
		t.Errorf("the whole is %s", whole)
	}
	if _, err := s.Model.Wait(e2e.Context(t), func(now scriptedmodel.Stats) bool { return now.Open == 0 }); err != nil {
		t.Error("the model goes on:", err)
	}
}
