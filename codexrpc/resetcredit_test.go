package codexrpc

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestReadResetCredits checks what is read of the credits, of which the first to expire is told.
func TestReadResetCredits(t *testing.T) {
	for summary, want := range map[string]*ResetCredits{
		`null`: nil, `{"availableCount":"2"}`: nil, ``: nil,
		`{"availableCount":3,"credits":null}`: {Available: 3},
		`{"availableCount":2,"credits":[{"id":"a","expiresAt":null},{"id":"b","expiresAt":9223372036854775807}]}`:                        {Available: 2},
		`{"availableCount":3,"credits":[{"expiresAt":1800000002},{"expiresAt":null},{"expiresAt":1800000001},{"expiresAt":1800000003}]}`: {3, time.Unix(1800000001, 0).UTC()},
	} {
		got := readResetCredits([]byte(summary))
		if (got == nil) != (want == nil) || got != nil && *got != *want {
			t.Errorf("%s: %+v", summary, got)
		}
	}
}

// TestSpendResetCredit checks what Codex is asked, its outcomes, and the words of its errors.
func TestSpendResetCredit(t *testing.T) {
	for _, c := range []struct {
		answer  string
		code    int // of an error, with answer as its message
		outcome ResetOutcome
		err     string
	}{
		{`{"outcome":"reset","future":1}`, 0, ResetDone, ""},
		{`{"outcome":"nothingToReset"}`, 0, ResetUseless, ""},
		{"Invalid request: unknown variant `account/rateLimitResetCredit/consume`, expected one of `initialize`", -32600, "", "this codex is too old to spend reset credits; update it"},
		{"unknown method", codeMethodNotFound, "", "this codex is too old to spend reset credits; update it"},
		{`failed: POST https://x failed: 500 Internal Server Error; content-type=text/html; body=<html>`, -32603, "", "codex says: failed: POST https://x failed: 500 Internal Server Error"},
		{strings.Repeat("x", 2*maxSpendError), -32603, "", "codex says: " + strings.Repeat("x", maxSpendError) + "…"},
	} {
		synctest.Test(t, func(t *testing.T) {
			conn, p := dial(t)
			var outcome ResetOutcome
			done := async(func() (err error) {
				outcome, err = conn.SpendResetCredit(t.Context(), "one")
				return err
			})
			call := p.expect(methodSpendReset)
			if string(call.Params) != `{"idempotencyKey":"one"}` {
				t.Errorf("asked %s", call.Params)
			}
			if c.code != 0 {
				p.refuse(call, c.code, c.answer)
			} else {
				p.answer(call, c.answer)
			}
			err := <-done
			if outcome != c.outcome || (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
				t.Errorf("%s: %q, %v", c.answer, outcome, err)
			}
			if old := strings.Contains(c.err, "too old"); old != errors.Is(err, ErrTooOld) {
				t.Error(err)
			}
		})
	}
}
