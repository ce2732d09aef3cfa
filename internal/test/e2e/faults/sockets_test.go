package faults

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// overSocket makes the model end requests with a text over a WebSocket in a way of its own. Over HTTP,
// it answers them.
func overSocket(s *e2e.Site, text string, end scriptedmodel.End) {
	s.Model.On(func(r scriptedmodel.Request) (scriptedmodel.Script, bool) {
		return scriptedmodel.Script{End: end}, r.Transport == scriptedmodel.WebSocket && strings.Contains(string(r.Body), text)
	})
}

// checkTransport begins a conversation and checks over which transport the model is asked.
func checkTransport(t *testing.T, s *e2e.Site, prompt string, want scriptedmodel.Transport) {
	t.Helper()
	response, text := s.Post(e2e.ChatBody(prompt, nil), nil)
	if request, _ := s.Model.Last(); response.StatusCode != http.StatusOK || request.Transport != want {
		t.Errorf("%s: %s over %s, want %s: %s", prompt, response.Status, request.Transport, want, text)
	}
}

// TestSocketTooOld checks that the end of a WebSocket as old as the provider allows does not
// change how later conversations reach the provider, even if no other WebSocket has worked yet.
func TestSocketTooOld(t *testing.T) {
	e2e.WithLogin(t)
	e2e.OverOne(t, scriptedmodel.WebSocket)
	s := e2e.NewSite(t, "")
	overSocket(s, "too old", scriptedmodel.HTTPError{
		Status: http.StatusBadRequest, Code: "websocket_connection_limit_reached",
		Message: "Responses websocket connection limit reached (60 minutes). Create a new websocket connection to continue.",
	})
	for i := range 3 {
		checkTransport(t, s, fmt.Sprint("say:too old ", i), scriptedmodel.HTTP)
		checkTransport(t, s, fmt.Sprint("say:ok ", i), scriptedmodel.WebSocket)
	}
}

// TestBrokenSockets checks that WebSockets which are cut, each alone or several at once, do not
// change how later conversations reach the provider, as long as others work.
func TestBrokenSockets(t *testing.T) {
	e2e.WithLogin(t)
	e2e.OverOne(t, scriptedmodel.WebSocket)
	s := e2e.NewSite(t, "")
	overSocket(s, "breaks", scriptedmodel.Cut{})
	overSocket(s, "wait", scriptedmodel.Hang{})
	checkTransport(t, s, "say:ok", scriptedmodel.WebSocket)
	for i := range 3 {
		checkTransport(t, s, fmt.Sprint("say:breaks ", i), scriptedmodel.HTTP)
		checkTransport(t, s, fmt.Sprint("say:ok ", i), scriptedmodel.WebSocket)
	}
	const several = 6
	var clients sync.WaitGroup
	before := s.Model.Stats().Requests
	for i := range several {
		clients.Go(func() {
			if response, text := s.Post(e2e.ChatBody(fmt.Sprint("say:wait ", i), nil), nil); response.StatusCode != http.StatusOK {
				t.Error(response.Status, text)
			}
		})
	}
	e2e.WaitFor(t, "the requests", func() bool { return s.Model.Stats().Requests == before+several })
	s.Model.CutSockets()
	clients.Wait()
	checkTransport(t, s, "say:ok afterwards", scriptedmodel.WebSocket)
	// While none works, they are left alone.
	checkTransport(t, s, "say:breaks again", scriptedmodel.HTTP)
	checkTransport(t, s, "say:breaks and again", scriptedmodel.HTTP)
	checkTransport(t, s, "say:ok over HTTP", scriptedmodel.HTTP)
}
