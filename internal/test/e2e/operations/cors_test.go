package operations

import (
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

const obsidian = "app://obsidian.md"

// preflight sends the request of a browser before one of a page.
func preflight(s *e2e.Site, origin string) *http.Response {
	s.T.Helper()
	response := s.Do(http.MethodOptions, "/v1/chat/completions", nil, http.Header{
		"Origin":                                 {origin},
		"Access-Control-Request-Method":          {"POST"},
		"Access-Control-Request-Headers":         {"authorization,content-type,x-stainless-os"},
		"Access-Control-Request-Private-Network": {"true"},
	})
	s.Read(response)
	return response
}

func checkPreflight(s *e2e.Site, origin string) {
	s.T.Helper()
	response := preflight(s, origin)
	header := response.Header
	if response.StatusCode != http.StatusNoContent || header.Get("Access-Control-Allow-Origin") != origin ||
		header.Get("Access-Control-Allow-Headers") != "authorization,content-type,x-stainless-os" ||
		header.Get("Access-Control-Allow-Private-Network") != "true" || header.Get("Access-Control-Max-Age") == "" {
		s.T.Errorf("%s: %s %v", origin, response.Status, header)
	}
}

// TestCORSBehindAuthentication checks the configuration in docs/keys.md that
// lets preflights pass Caddy's own authentication.
func TestCORSBehindAuthentication(t *testing.T) {
	s := e2e.NewSite(t, "")
	s.Load(s.Wrap(`@login not {
			method OPTIONS
			header Access-Control-Request-Method *
		}
		basic_auth @login {
			bob ` + e2e.BobsHash + `
		}
		codex {
			` + s.AppServer() + `
			cors ` + obsidian + `
		}`))
	s.WaitReadyAs(basic("bob"))
	checkPreflight(s, obsidian)
	for _, method := range []string{http.MethodPost, http.MethodOptions} {
		response := s.Do(method, "/v1/chat/completions", strings.NewReader(e2e.ChatBody("say:ok", nil)), http.Header{"Origin": {obsidian}})
		if s.Read(response); response.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s passes without a login: %s", method, response.Status)
		}
	}
}
