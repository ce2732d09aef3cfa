package responses

import (
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// poll reads a response until it has ended.
func poll(s *e2e.Site, id string) (r *e2e.Response) {
	s.T.Helper()
	e2e.WaitFor(s.T, "the end of "+id, func() bool {
		status, body := about(s, http.MethodGet, id, nil)
		if status != http.StatusOK {
			s.T.Fatal(status, body)
		}
		r = s.ParseResponse([]byte(body))
		return r.Status != "in_progress"
	})
	return r
}

// TestBackground checks that a client can poll a response in the background, that it can
// be followed, and that it survives a reload.
func TestBackground(t *testing.T) {
	s := e2e.NewSite(t, "")
	request := e2e.Asks("delay=50ms; say:One of a few words, and then Two", e2e.Fields{"background": true})
	begun := s.Respond(request, nil)
	if begun.Status != "in_progress" || len(begun.Output) > 0 {
		t.Errorf("%+v", begun)
	}
	s.Load(s.Caddyfile("keepalive 9s"))
	s.WaitReady()
	if r := poll(s, begun.ID); r.Status != "completed" || !strings.Contains(r.Text(), "Two") {
		t.Errorf("%+v", r)
	}
	if next := s.Respond(e2e.Asks("say:Three.", e2e.Fields{"previous_response_id": begun.ID}), nil); next.Text() != "Three." {
		t.Errorf("%+v", next)
	}
}

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

// TestBackgroundOff checks that background responses need a store.
func TestBackgroundOff(t *testing.T) {
	s := e2e.NewSite(t, "store off")
	if _, refused := s.RefuseResponse(e2e.Asks("q", e2e.Fields{"background": true}), nil); *refused.Error.Param != "background" || !strings.Contains(*refused.Error.Message, "store to off") {
		t.Errorf("%s", e2e.EncodeJSON(refused))
	}
}
