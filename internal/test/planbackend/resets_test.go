package planbackend_test

import (
	"slices"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/planbackend"
)

// TestResets checks with the real codex that the windows of a plan are reset for a credit, once for
// a key, and what is said otherwise.
func TestResets(t *testing.T) {
	w := newWorld(t, planbackend.Options{}, planbackend.LoginOptions{})
	expires := time.Now().Add(24 * time.Hour)
	w.login.GrantReset("one", expires)
	w.login.GrantReset("two", time.Time{})
	c := w.start()
	list := c.call("account/rateLimits/read", `{}`).Get("result.rateLimitResetCredits")
	if list.Get("availableCount").Int() != 2 || list.Get("credits.0.expiresAt").Int() != expires.Unix() || list.Get("credits.1.expiresAt").Int() != 0 {
		t.Errorf("the credits are %s", list)
	}
	for i, step := range []struct {
		use          int
		params, want string
		left         []string
	}{
		{99, `{"idempotencyKey":"a"}`, "nothingToReset", []string{"one", "two"}},
		{100, `{"idempotencyKey":"a","creditId":"three"}`, "noCredit", []string{"one", "two"}},
		{100, `{"idempotencyKey":"a","creditId":"two"}`, "reset", []string{"one"}},
		{100, `{"idempotencyKey":"a"}`, "alreadyRedeemed", []string{"one"}},
		{100, `{"idempotencyKey":"b"}`, "reset", nil},
		{100, `{"idempotencyKey":"c"}`, "noCredit", nil},
	} {
		w.login.SetUse(planbackend.Use{Primary: step.use})
		answer := c.call("account/rateLimitResetCredit/consume", step.params)
		if got := answer.Get("result.outcome").Str; got != step.want || !slices.Equal(w.login.Resets(), step.left) {
			t.Errorf("step %d: %s, and %v are left", i, answer, w.login.Resets())
		}
	}
}
