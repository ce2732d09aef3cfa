package codexrpc

import (
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
)

// TestInstructions: what a provider was found to take holds until the login
// changes, and is bounded.
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
		c.InstructionsTaken(strings.Repeat("x", maxTakingLen+1))
		for i := range maxTaking + 9 {
			c.InstructionsTaken(strconv.Itoa(i))
		}
		if n := len(c.instructions.taking); n != maxTaking {
			t.Errorf("%d models are remembered", n)
		}
	})
}

// TestPrompt: which base prompts reach the model twice.
func TestPrompt(t *testing.T) {
	local := NewProcess(ProcessConfig{Command: []string{"codex"}}, nil)
	local.models = catalogue{models: []modelEntry{{slug: "lite", prompt: "L", lite: true}, {slug: "full", prompt: "F"}}}
	for model, want := range map[string]Prompt{
		"lite": {Own: "L", Twice: true}, "lite-2026-01-01": {Own: "L", Twice: true}, "full": {Own: "F"}, "other": {}, "": {},
	} {
		if got := local.Prompt(model); got != want {
			t.Errorf("%q: %+v", model, got)
		}
	}
	for version, twice := range map[string]bool{"0.150.0": false, "0.168.9": false, "0.169.0": true, "1.0.0": true, "unknown": true} {
		far := NewProcess(ProcessConfig{Connect: "ws://127.0.0.1:1"}, nil)
		far.status.Version = version
		if got := far.Prompt("lite"); got != (Prompt{Twice: twice}) {
			t.Errorf("%s: %+v", version, got)
		}
		far.Stop()
	}
	local.Stop()
}
