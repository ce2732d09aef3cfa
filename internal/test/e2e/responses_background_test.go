package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// poll reads a response until it has ended.
func (s *site) poll(id string) (r *response) {
	s.t.Helper()
	waitFor(s.t, "the end of "+id, func() bool {
		status, body := s.about(http.MethodGet, id, nil)
		if status != http.StatusOK {
			s.t.Fatal(status, body)
		}
		r = s.parseResponse([]byte(body))
		return r.Status != "in_progress"
	})
	return r
}

// TestBackground checks that a client can poll a response in the background, that it can
// be followed, and that it survives a reload.
func TestBackground(t *testing.T) {
	s := newSite(t, "")
	request := asks("delay=50ms; say:One of a few words, and then Two", fields{"background": true})
	begun := s.respond(request, nil)
	if begun.Status != "in_progress" || len(begun.Output) > 0 {
		t.Errorf("%+v", begun)
	}
	s.load(s.caddyfile("keepalive 9s"))
	s.waitReady()
	if r := s.poll(begun.ID); r.Status != "completed" || !strings.Contains(r.text(), "Two") {
		t.Errorf("%+v", r)
	}
	if next := s.respond(asks("say:Three.", fields{"previous_response_id": begun.ID}), nil); next.text() != "Three." {
		t.Errorf("%+v", next)
	}
}

// TestBackgroundResumed checks that a response in the background continues without its
// client, who can read the rest of the stream later, even after a reload.
func TestBackgroundResumed(t *testing.T) {
	s := newSite(t, "")
	stream, id := s.begin(fields{"stream": true, "background": true}, nil)
	if err := stream.Body.Close(); err != nil {
		t.Fatal(err)
	}
	s.load(s.caddyfile("keepalive 9s"))
	s.waitReady()
	resumed := s.do(http.MethodGet, "/v1/responses/"+id+"?stream=true&starting_after=1", nil, nil)
	s.waitOpen(1) // the model continues
	if status, body := s.about(http.MethodPost, id+"/cancel", nil); status != http.StatusOK || s.parseResponse([]byte(body)).Status != "cancelled" {
		t.Fatal(status, body)
	}
	rest := s.read(resumed)
	if !strings.Contains(rest, `"sequence_number":2,`) || strings.Contains(rest, "event: response.created") || !strings.Contains(rest, "event: response.failed") {
		t.Errorf("the rest is %s", rest)
	}
	whole := s.read(s.do(http.MethodGet, "/v1/responses/"+id+"?stream=true", nil, nil))
	if !strings.HasSuffix(whole, rest) || !strings.HasPrefix(whole, "event: response.created") {
		t.Errorf("the whole is %s", whole)
	}
	if _, err := s.model.Wait(testContext(t), func(now scriptedmodel.Stats) bool { return now.Open == 0 }); err != nil {
		t.Error("the model goes on:", err)
	}
}

// TestBackgroundOff checks that background responses need a store.
func TestBackgroundOff(t *testing.T) {
	s := newSite(t, "response_store off")
	if _, refused := s.refuseResponse(asks("q", fields{"background": true}), nil); *refused.Error.Param != "background" || !strings.Contains(*refused.Error.Message, "response_store") {
		t.Errorf("%s", encodeJSON(refused))
	}
}
