package gateway

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/fakecodex"
)

// TestMuteMethods: whatever an app-server does not answer, each request has a
// proper end, and then a fresh app-server serves.
func TestMuteMethods(t *testing.T) {
	const history = `{"role":"assistant","content":"a"},`
	for method, test := range map[string]struct {
		failures []string // of requests one after another, until one is served
		most     time.Duration
	}{
		// The next request is served by the next start.
		"initialize":          {[]string{"503 codex_not_ready"}, time.Minute},
		"getAuthStatus":       {[]string{"503 codex_not_ready"}, time.Minute},
		"thread/start":        {[]string{"504 codex_timeout", "504 codex_timeout"}, 2 * time.Minute},
		"thread/inject_items": {[]string{"504 codex_timeout", "504 codex_timeout"}, 2 * time.Minute},
		"turn/start":          {[]string{"504 codex_timeout", "504 codex_timeout"}, 2 * time.Minute},
		// What ends a turn for its client does not hang on these.
		"turn/interrupt":     {nil, time.Minute},
		"thread/unsubscribe": {nil, time.Minute},
		"server/diagnostics": {nil, time.Minute},
		"account/read":       {nil, time.Minute},
	} {
		t.Run(strings.ReplaceAll(method, "/", "_"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := newPlayed(t, func(start int) fakecodex.Options {
					opts := fakecodex.Options{Default: "text"}
					if start == 1 {
						opts.Faults.Mute = []string{method}
					}
					return opts
				})
				g := newGateway(u, Options{MaxConcurrent: 1})
				begin := time.Now()
				for n := 0; ; n++ {
					answer := httptest.NewRecorder()
					g.Chat(answer, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"model":"m","messages":[`+history+`{"role":"user","content":"x"}]}`)))
					if answer.Code == http.StatusOK && n == len(test.failures) {
						break
					}
					var code string
					if _, rest, ok := strings.Cut(answer.Body.String(), `"code":"`); ok {
						code, _, _ = strings.Cut(rest, `"`)
					}
					if n >= len(test.failures) || fmt.Sprint(answer.Code, " ", code) != test.failures[n] {
						t.Fatalf("request %d: %d %s", n, answer.Code, answer.Body)
					}
					time.Sleep(time.Second) // as clients wait before they try again
				}
				if took := time.Since(begin); took > test.most {
					t.Errorf("it was served after %s", took)
				}
				u.process.Stop()
			})
		})
	}
}
