package jsontext

import "testing"

// TestHalves: a text is the same when it is cut between the halves of a surrogate
// pair and joined again, and what is no half is not cut off.
func TestHalves(t *testing.T) {
	for _, c := range []struct{ first, next, text, half, joined string }{
		{`a\ud83d`, `\ude00b`, "a", "\ufffd", "😀b"},
		{`\uD83D`, `x\n`, "", "\ufffd", "\ufffdx\n"},
		{`a\\ud83d`, ``, `a\ud83d`, "", ""},
		{`a\\\ud83d`, `\ude00`, `a\`, "\ufffd", "😀"},
		{`\ude00`, ``, "\ufffd", "", ""},
		{`\ud83d\ude00`, ``, "😀", "", ""},
		{`\u0041`, ``, "A", "", ""},
		{`ud83d`, ``, "ud83d", "", ""},
	} {
		first, _ := AsString(`"` + c.first + `"`)
		next, _ := AsString(`"` + c.next + `"`)
		text, half := first.CutHalf()
		if text.String() != c.text || half.String() != c.half {
			t.Errorf("%s is cut into %q and %q", c.first, text.String(), half.String())
		}
		if c.half == "" {
			continue
		}
		if got := half.Join(next).String(); got != c.joined {
			t.Errorf("%s and %s make %q, want %q", c.first, c.next, got, c.joined)
		}
		if got := half.Join(Plain(`\ude00`)).String(); got != "\ufffd"+`\ude00` {
			t.Errorf("with a plain text: %q", got)
		}
	}
}
