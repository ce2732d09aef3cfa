package gateway

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/fakecodex"
)

// TestSpentPlan: when neither the failure nor an earlier answer tells when the
// plan resets, Codex is asked, and a client is told.
func TestSpentPlan(t *testing.T) {
	resets := time.Now().Add(2 * time.Hour)
	for name, c := range map[string]struct {
		limits string
		faults fakecodex.Faults
		told   bool
	}{
		"told":           {limits: fmt.Sprintf(`{"primary":{"usedPercent":100,"windowDurationMins":300,"resetsAt":%d},"secondary":null}`, resets.Unix()), told: true},
		"not known":      {},
		"never answered": {faults: fakecodex.Faults{Mute: []string{"account/rateLimits/read"}}},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGateway(newFakeUpstream(t, fakecodex.Options{RateLimits: c.limits, Faults: c.faults}), Options{MaxConcurrent: 4})
			for _, more := range []string{"", `,"stream":true`, `,"n":2`} {
				w := httptest.NewRecorder()
				body := `{"model":"gpt-5","messages":[{"role":"user","content":"fail:insufficient_quota"}]` + more + `}`
				g.Chat(w, httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(body)))
				if w.Code != http.StatusTooManyRequests && !strings.Contains(w.Body.String(), "insufficient_quota") {
					t.Fatalf("%s: %d %s", more, w.Code, w.Body)
				}
				if w.Code == http.StatusOK {
					continue // asking has taken longer than the header of a stream may wait
				}
				seconds, _ := strconv.Atoi(w.Header().Get("Retry-After"))
				if told := seconds > 7000 && seconds <= 7200; told != c.told || w.Header().Get("X-Should-Retry") != "false" {
					t.Errorf("%s: %v", more, w.Header())
				}
			}
		})
	}
}
