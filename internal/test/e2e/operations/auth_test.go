package operations

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

// basic returns the Authorization header of a user with the password "secret".
func basic(user string) http.Header {
	return http.Header{"Authorization": {"Basic " + base64.StdEncoding.EncodeToString([]byte(user+":secret"))}}
}

// usageAs returns the account of the user whom a header authenticates.
func usageAs(s *e2e.Site, header http.Header) (raw string, requests int) {
	s.T.Helper()
	response := s.Do(http.MethodGet, "/v1/usage/raw", nil, header)
	raw = s.Read(response)
	if response.StatusCode != http.StatusOK {
		s.T.Fatal(response.Status, raw)
	}
	return raw, strings.Count(raw, `"request_id"`)
}

// TestUserOfBasicAuth checks that usage is counted for the user of basic_auth.
func TestUserOfBasicAuth(t *testing.T) {
	s := e2e.NewSite(t, "")
	s.Load(s.Wrap("basic_auth {\nbob " + e2e.BobsHash + "\neve " + e2e.BobsHash + "\n}\ncodex {\n" + s.AppServer() + "\n}"))
	s.WaitReadyAs(basic("bob"))
	_, bob := usageAs(s, basic("bob"))
	_, eve := usageAs(s, basic("eve"))
	if response, text := s.Post(e2e.ChatBody("say:ok", nil), basic("bob")); response.StatusCode != http.StatusOK {
		t.Fatal(response.Status, text)
	}
	raw, now := usageAs(s, basic("bob"))
	if now != bob+1 || !strings.Contains(raw, `"user":"bob@`) {
		t.Errorf("bob had %d turns, now %s", bob, raw)
	}
	if raw, now := usageAs(s, basic("eve")); now != eve || strings.Contains(raw, "bob") {
		t.Errorf("eve had %d turns, now %s", eve, raw)
	}
}
