package codexrpc

import (
	"slices"
	"testing"
	"testing/synctest"
)

// TestParallelCalls checks that what is recorded is dropped when the login changes.
func TestParallelCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := dial(t)
		check := func(when string, accepted, refused bool, serial ...string) {
			t.Helper()
			a, r := c.TakesParallelCalls("m")
			if a != accepted || r != refused || !slices.Equal(c.SerialModels(), serial) {
				t.Errorf("%s: accepted %t, refused %t, by %q", when, a, r, c.SerialModels())
			}
		}
		check("at first", false, false)
		c.ParallelCallsTaken("m")
		check("taken", true, false)
		if !c.ParallelCallsRefused("n") || c.ParallelCallsRefused("n") {
			t.Error("the first refusal is not told from the second")
		}
		check("refused with another model", true, false, "n")
		p.notify(methodAccountUpdated, `{"authMode":"chatgpt"}`)
		synctest.Wait()
		check("with another login", false, false)
		c.ParallelCallsRefused("m")
		check("refused", false, true, "m")
	})
}
