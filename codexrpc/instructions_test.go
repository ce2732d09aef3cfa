package codexrpc

import (
	"testing"
	"testing/synctest"
)

// TestInstructions checks that what is recorded of a provider is dropped when the
// login changes, and is bounded.
func TestInstructions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := dial(t)
		check := func(when string, strict, takes bool) {
			t.Helper()
			if c.Strict() != strict || c.TakesInstructions("m") != takes || c.TakesInstructions("n") {
				t.Errorf("%s: strict %t, takes %t, takes another %t", when, c.Strict(), c.TakesInstructions("m"), c.TakesInstructions("n"))
			}
		}
		check("at first", false, false)
		c.InstructionsTaken("m")
		check("taken", false, true)
		if !c.InstructionsRefused("n") || c.InstructionsRefused("n") {
			t.Error("the first refusal is not told from the second")
		}
		check("refused with another model", true, true)
		c.InstructionsRefused("m")
		check("refused", true, false)
		p.notify(methodAccountUpdated, `{"authMode":"chatgpt"}`)
		synctest.Wait()
		check("with another login", false, false)
		if n := c.Stats().UnknownNotifications; n != 0 {
			t.Errorf("%d notifications were not known", n)
		}
	})
}
