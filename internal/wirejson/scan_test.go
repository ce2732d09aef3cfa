package wirejson

import "testing"

// TestPart: half of a surrogate pair stays at the begin and at the end of a part, and only there.
func TestPart(t *testing.T) {
	const high, low = "\xed\xa0\xbd", "\xed\xb8\x80"
	for raw, want := range map[string]string{
		`a\ud83d`:            "a" + high,
		`\uD83D`:             high,
		`\ud83d\ud83d`:       "\ufffd" + high,
		`a\\ud83d`:           `a\ud83d`,
		`a\\\ud83d`:          `a\` + high,
		`\ude00`:             low,
		`\ude00b`:            low + "b",
		`\ude00\ude00`:       low + "\ufffd",
		`\ude00\ud83d`:       low + high,
		`a\ud83db\ude00c`:    "a\ufffdb\ufffdc",
		`\ud83d\ude00`:       "😀",
		`\ud83d\ude00\ud83d`: "😀" + high,
		`\u0041`:             "A",
		`ud83d`:              "ud83d",
		``:                   "",
	} {
		var buf []byte
		if got := Value(`"` + raw + `"`).Part(&buf); got != want {
			t.Errorf("%s is %q, want %q", raw, got, want)
		}
	}
}
