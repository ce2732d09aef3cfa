package e2e

import (
	"net/http"
	"strings"
	"testing"
)

const obsidian = "app://obsidian.md"

// preflight sends the request of a browser before one of a page.
func (s *site) preflight(origin string) *http.Response {
	s.t.Helper()
	response := s.do(http.MethodOptions, "/v1/chat/completions", nil, http.Header{
		"Origin":                                 {origin},
		"Access-Control-Request-Method":          {"POST"},
		"Access-Control-Request-Headers":         {"authorization,content-type,x-stainless-os"},
		"Access-Control-Request-Private-Network": {"true"},
	})
	s.read(response)
	return response
}

func (s *site) checkPreflight(origin string) {
	s.t.Helper()
	response := s.preflight(origin)
	header := response.Header
	if response.StatusCode != http.StatusNoContent || header.Get("Access-Control-Allow-Origin") != origin ||
		header.Get("Access-Control-Allow-Headers") != "authorization,content-type,x-stainless-os" ||
		header.Get("Access-Control-Allow-Private-Network") != "true" || header.Get("Access-Control-Max-Age") == "" {
		s.t.Errorf("%s: %s %v", origin, response.Status, header)
	}
}

// TestCORS checks that pages of the listed origins can send preflights without a key,
// and read answers, streams and errors.
func TestCORS(t *testing.T) {
	s := newSite(t, "api_key sk-page\ncors "+obsidian+" capacitor://localhost http://localhost")
	for _, origin := range []string{obsidian, "capacitor://localhost", "http://localhost"} {
		s.checkPreflight(origin)
	}
	if response := s.preflight("https://evil.example"); response.StatusCode != http.StatusForbidden || response.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("%s %v", response.Status, response.Header)
	}
	for key, want := range map[string]int{"sk-page": 200, "sk-wrong": 401} {
		for _, stream := range []bool{false, true} {
			header := bearer(key)
			header.Set("Origin", obsidian)
			response, text := s.post(chatBody("say:ok", map[string]any{"stream": stream}), header)
			if response.StatusCode != want || response.Header.Get("Access-Control-Allow-Origin") != obsidian ||
				!strings.Contains(response.Header.Get("Access-Control-Expose-Headers"), "X-Request-Id") {
				t.Errorf("%s: %s %v %s", key, response.Status, response.Header, text)
			}
		}
	}
	s.load(s.caddyfile("api_key sk-page"))
	if response := s.preflight(obsidian); response.StatusCode != http.StatusUnauthorized || response.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("off: %s %v", response.Status, response.Header)
	}
}

// TestCORSBehindAuthentication checks the configuration in docs/configuration.md that
// lets preflights pass Caddy's own authentication.
func TestCORSBehindAuthentication(t *testing.T) {
	s := newSite(t, "")
	s.load(s.wrap(`@login not {
			method OPTIONS
			header Access-Control-Request-Method *
		}
		basic_auth @login {
			bob ` + bobsHash + `
		}
		codex {
			` + s.appServer() + `
			cors ` + obsidian + `
		}`))
	s.waitReadyAs(basic("bob"))
	s.checkPreflight(obsidian)
	for _, method := range []string{http.MethodPost, http.MethodOptions} {
		response := s.do(method, "/v1/chat/completions", strings.NewReader(chatBody("say:ok", nil)), http.Header{"Origin": {obsidian}})
		if s.read(response); response.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s passes without a login: %s", method, response.Status)
		}
	}
}
