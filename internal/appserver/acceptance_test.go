package appserver

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
)

// What is recorded of a provider is kept for each connection, and dropped when the login changes.
func TestAcceptance(t *testing.T) {
	inBubble(t, func(t *testing.T, p *Process, d *doubles) {
		in, err := p.Instance(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		a := in.Acceptance()
		check := func(when string, strict, instructions, parallel bool, serial ...string) {
			t.Helper()
			accepted, refused := a.ParallelCalls("m")
			if a.Strict() != strict || a.Instructions("m") != instructions || a.Instructions("n") || accepted != parallel ||
				refused != slices.Contains(serial, "m") || !slices.Equal(a.SerialModels(), serial) {
				t.Errorf("%s: strict %t, instructions %t, parallel calls %t, refused by %q", when, a.Strict(), a.Instructions("m"), accepted, a.SerialModels())
			}
			if status := p.Status(); status.Strict != strict || !slices.Equal(status.SerialModels, serial) {
				t.Errorf("%s: the status says strict %t, serial %q", when, status.Strict, status.SerialModels)
			}
		}
		check("at first", false, false, false)
		a.InstructionsAccepted("m")
		a.ParallelCallsAccepted("m")
		check("accepted", false, true, true)
		if !a.InstructionsRefused("n") || a.InstructionsRefused("n") || !a.ParallelCallsRefused("n") || a.ParallelCallsRefused("n") {
			t.Error("the first refusal is not told from the second")
		}
		check("refused with another model", true, true, true, "n")
		a.InstructionsRefused("m")
		check("refused", true, false, true, "n")
		d.last().say(`{"method":"account/updated","params":{"authMode":"chatgpt"}}`)
		synctest.Wait()
		check("with another login", false, false, false)
		a.ParallelCallsRefused("m")
		check("refused by another login", false, false, false, "m")

		d.last().kill()
		synctest.Wait()
		if in, err = p.Instance(t.Context()); err != nil {
			t.Fatal(err)
		}
		a = in.Acceptance()
		check("over another connection", false, false, false)
	})
}

func TestModelSet(t *testing.T) {
	var set modelSet
	if set["m"] || !set.add("m") || set.add("m") || !set["m"] || set["n"] {
		t.Errorf("the set is %v", set)
	}
	if set.add(strings.Repeat("x", maxModelSetName+1)) {
		t.Error("a long name was added")
	}
	for i := range maxModelSet + 9 {
		set.add(strconv.Itoa(i))
	}
	if n := len(set); n != maxModelSet {
		t.Errorf("%d models are remembered", n)
	}
}
