package operations

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"

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

// TestUsageTimes checks the times of a turn in the usage.
func TestUsageTimes(t *testing.T) {
	s := e2e.NewSite(t, "usage all")
	begin := time.Now()
	header := http.Header{"X-Request-Id": {"timed-" + begin.Format("150405.000000000")}}
	if response, text := s.Post(e2e.ChatBody("chunk=1; delay=200ms; say:0123456789", map[string]any{"stream": true}), header); response.StatusCode != http.StatusOK {
		t.Fatal(response.Status, text)
	}
	took := time.Since(begin).Seconds()
	var raw struct {
		Data []struct {
			RequestID   string  `json:"request_id"`
			Duration    float64 `json:"duration"`
			FirstOutput float64 `json:"first_output"`
		} `json:"data"`
	}
	e2e.WaitFor(t, "the turn", func() bool {
		s.GetJSON("/v1/usage/raw", &raw)
		return len(raw.Data) > 0 && raw.Data[0].RequestID == header.Get("X-Request-Id")
	})
	if e := raw.Data[0]; e.FirstOutput <= 0 || e.Duration < e.FirstOutput+.1 || e.Duration > took+e2e.Deadline.Seconds() {
		t.Errorf("%+v; the client waited for %v seconds", e, took)
	}
	var usage struct {
		ByUser []any `json:"by_user"`
		ByHour []any `json:"by_hour"`
		ByDay  []any `json:"by_day"`
		Limits any   `json:"rate_limits"`
	}
	s.GetJSON("/v1/usage", &usage)
	if len(usage.ByUser) == 0 || len(usage.ByHour) == 0 || len(usage.ByDay) == 0 {
		t.Errorf("%+v", usage)
	}
}
