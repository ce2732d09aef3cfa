package operations

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

// TestUsersOfTwoSites checks that a user of one site does not meet the user of the same
// name on another one: not in the usage, nor in stored responses; unless the sites have one
// realm.
func TestUsersOfTwoSites(t *testing.T) {
	s := e2e.NewSite(t, "")
	_, port, _ := strings.Cut(s.Addr, ":")
	load := func(options string) {
		codex := "codex {\n" + s.AppServer() + "\napi_key sk-alice alice\n" + options + "\n}\n"
		s.Load(s.Wrap("respond ok") + "http://one.localhost:" + port + " {\n" + codex + "}\nhttp://two.localhost:" + port + " {\n" + codex + "}\n")
	}
	ask := func(host, method, path, body string) (int, string) {
		t.Helper()
		request, err := http.NewRequestWithContext(e2e.Context(t), method, s.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Host, request.Header = host+".localhost:"+port, e2e.Bearer("sk-alice")
		request.Header.Set("Content-Type", "application/json")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, s.Read(response)
	}
	for options, meet := range map[string]bool{"": false, "realm both": true} {
		load(options)
		e2e.WaitFor(t, "readiness", func() bool { code, _ := ask("one", http.MethodGet, "/readyz", ""); return code == http.StatusOK })
		requests := func(host string) (n int) {
			t.Helper()
			_, text := ask(host, http.MethodGet, "/v1/usage", "")
			var usage struct{ Requests int }
			if err := json.Unmarshal([]byte(text), &usage); err != nil {
				t.Fatal(err, text)
			}
			return usage.Requests
		}
		before := requests("two")
		code, text := ask("one", http.MethodPost, "/v1/responses", `{"model":"gpt-5","input":"say:mine"}`)
		var made struct{ ID string }
		if err := json.Unmarshal([]byte(text), &made); err != nil || code != http.StatusOK {
			t.Fatal(code, text)
		}
		if code, text := ask("one", http.MethodGet, "/v1/responses/"+made.ID, ""); code != http.StatusOK {
			t.Errorf("%q: the owner gets %d %s", options, code, text)
		}
		e2e.WaitFor(t, "the count", func() bool { return requests("one") > 0 })
		if now := requests("two"); meet != (now > before) {
			t.Errorf("%q: the usage on the other site went from %d to %d", options, before, now)
		}
		code, _ = ask("two", http.MethodGet, "/v1/responses/"+made.ID, "")
		continued, _ := ask("two", http.MethodPost, "/v1/responses", `{"model":"gpt-5","input":"say:more","previous_response_id":"`+made.ID+`"}`)
		if meet != (code == http.StatusOK) || meet != (continued == http.StatusOK) {
			t.Errorf("%q: on the other site it is %d, continued %d", options, code, continued)
		}
	}
}
