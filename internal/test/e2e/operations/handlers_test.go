package operations

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

// TestBehindOtherHandlers checks the handler behind Caddy's own handlers.
func TestBehindOtherHandlers(t *testing.T) {
	s := e2e.NewSite(t, "")
	s.Load(s.Wrap(`encode gzip
		basic_auth {
			bob ` + e2e.BobsHash + `
		}
		request_body {
			max_size 2KB
		}
		codex {
			` + s.AppServer() + `
		}
		respond "not the API"`))
	auth := http.Header{"Authorization": {"Basic Ym9iOnNlY3JldA=="}}
	if response, _ := s.Post(e2e.ChatBody("say:ok", nil), nil); response.StatusCode != 401 {
		t.Error("basic_auth comes first:", response.Status)
	}
	auth.Set("Accept-Encoding", "gzip")
	response, text := s.Post(e2e.ChatBody("say:ok", map[string]any{"stream": true}), auth)
	if response.StatusCode != 200 || response.Header.Get("Content-Encoding") != "" || !strings.HasSuffix(text, "data: [DONE]\n\n") {
		t.Errorf("a stream behind encode: %s %v %q", response.Status, response.Header, text)
	}
	response, text = s.Post(e2e.ChatBody(strings.Repeat("x", 3000), nil), auth)
	if response.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("a body over request_body's limit: %s %s", response.Status, text)
	}
	response = s.Do("GET", "/elsewhere", nil, auth)
	if text := s.Read(response); response.StatusCode != 200 || !strings.Contains(text, "not the API") {
		t.Errorf("other paths go on: %s %q", response.Status, text)
	}
}

// TestBehindCodexKeys checks that codex serves the key that codex_keys has taken from a request, and that each request
// counts once, also on a WebSocket, and also if handle_path has changed its path.
func TestBehindCodexKeys(t *testing.T) {
	file := e2e.NewKeyFile(t, map[string]string{"sk-both": "user ann\nmodels gpt-5.5\nrequests 4 24h\nmax_concurrent 1"})
	s := e2e.NewSite(t, "")
	s.Load(s.Wrap("handle_path /ai/* {\ninvoke keys\n}\nhandle /v1/* {\ninvoke keys\n}\nrespond x") +
		"&(keys) {\nroute {\ncodex_keys {\napi_keys_file " + file.Path + "\n}\ncodex {\n" + s.AppServer() + "\n}\n}\n}\n")
	ask := func(path, model string) (int, string) {
		response, text := s.Call(http.MethodPost, path, e2e.Asks("say:ok", e2e.Fields{"model": model}), e2e.Bearer("sk-both"))
		return response.StatusCode, text
	}
	if status, text := ask("/ai/v1/responses", "gpt-5.5"); status != http.StatusOK || !strings.Contains(text, `"ok"`) {
		t.Errorf("by handle_path: %d %s", status, text)
	}
	socket := s.DialResponses(e2e.Bearer("sk-both")) // the handshake counts, and its first request does not
	for range 2 {
		socket.Respond(e2e.Fields{"model": "gpt-5.5", "input": "say:ok"})
	}
	if status, text := ask("/v1/responses", "gpt-5"); status != http.StatusForbidden && status != http.StatusNotFound {
		t.Errorf("a model that is not the key's: %d %s", status, text)
	}
	if _, refused := socket.Ask(e2e.Fields{"model": "gpt-5.5", "input": "say:ok"}); refused == nil || *refused.Error.Code != "rate_limit_exceeded" {
		t.Errorf("the fifth request: %+v", refused)
	}
	if status, text := ask("/v1/responses", "gpt-5.5"); status != http.StatusTooManyRequests {
		t.Errorf("the sixth request: %d %s", status, text)
	}
}

// basic returns the Authorization header of a user with the password "secret".
func basic(user string) http.Header {
	return http.Header{"Authorization": {"Basic " + base64.StdEncoding.EncodeToString([]byte(user+":secret"))}}
}

func usageAs(s *e2e.Site, header http.Header) (raw string, requests int) {
	s.T.Helper()
	response := s.Do(http.MethodGet, "/v1/usage/raw", nil, header)
	raw = s.Read(response)
	if response.StatusCode != http.StatusOK {
		s.T.Fatal(response.Status, raw)
	}
	return raw, strings.Count(raw, `"request_id"`)
}

const obsidian = "app://obsidian.md"

// TestCORSBehindAuthentication: docs/keys.md's configuration lets preflights pass authentication.
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
	allowed, _ := s.Call(http.MethodOptions, "/v1/chat/completions", nil, http.Header{
		"Origin": {obsidian}, "Access-Control-Request-Method": {"POST"}, "Access-Control-Request-Headers": {"authorization"},
	})
	if allowed.StatusCode != http.StatusNoContent || allowed.Header.Get("Access-Control-Allow-Origin") != obsidian {
		t.Errorf("a preflight: %s %v", allowed.Status, allowed.Header)
	}
	for _, method := range []string{http.MethodPost, http.MethodOptions} {
		response, _ := s.Call(method, "/v1/chat/completions", e2e.ChatBody("say:ok", nil), http.Header{"Origin": {obsidian}})
		if response.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s passes without a login: %s", method, response.Status)
		}
	}
}
