package wirejson

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// asRead is what a reader gets of s: each byte that is not UTF-8 as U+FFFD.
func asRead(s string) string { return string([]rune(s)) }

func checkString(t *testing.T, s string) {
	t.Helper()
	encoded := AppendString(nil, s)
	if !utf8.Valid(encoded) {
		t.Fatalf("%q: not UTF-8: %q", s, encoded)
	}
	var got string
	if err := json.Unmarshal(encoded, &got); err != nil {
		t.Fatalf("%q: %v in %q", s, err, encoded)
	}
	if got != asRead(s) {
		t.Errorf("%q reads back as %q", s, got)
	}
	if strings.ContainsAny(string(encoded), "\u2028\u2029\x7f") {
		t.Errorf("%q: not safe for old JavaScript: %q", s, encoded)
	}
	if _, err := check(encoded, maxDepth); err != nil {
		t.Errorf("%q: %v", s, err)
	}
	if fromBytes := AppendString(nil, []byte(s)); string(fromBytes) != string(encoded) {
		t.Errorf("%q: bytes give %q, the string %q", s, fromBytes, encoded)
	}
}

func TestAppendString(t *testing.T) {
	for s, want := range map[string]string{
		"":               `""`,
		"plain":          `"plain"`,
		"a\"b\\c":        `"a\"b\\c"`,
		"\n\r\t":         `"\n\r\t"`,
		"\x00\x1f\x7f":   `"\u0000\u001f\u007f"`,
		"<a href='x'>&":  `"<a href='x'>&"`,
		"ü😀":             `"ü😀"`,
		"a\u2028b\u2029": `"a\u2028b\u2029"`,
		"\xffx\xc3":      `"` + "\ufffdx\ufffd" + `"`,
		"\xed\xa0\x80":   `"` + "\ufffd\ufffd\ufffd" + `"`,
		"\ufffd":         `"` + "\ufffd" + `"`,
	} {
		if got := string(AppendString(nil, s)); got != want {
			t.Errorf("%q: %s, want %s", s, got, want)
		}
		checkString(t, s)
	}
}

func TestAppendStringEveryByte(t *testing.T) {
	for b := range 256 {
		checkString(t, "a"+string([]byte{byte(b)})+"z")
	}
}

func FuzzAppendString(f *testing.F) {
	f.Add("a\xf0\x9f\x98")
	f.Add("\u2028\x00\"")
	f.Fuzz(checkString)
}

func TestAppend(t *testing.T) {
	type object struct {
		Text string          `json:"text"`
		None *string         `json:"none"`
		Raw  json.RawMessage `json:"raw"`
	}
	for want, v := range map[string]any{
		`x{"text":"<b> & \u2028","none":null,"raw":{"a":1}}`: object{Text: "<b> & \u2028", Raw: json.RawMessage("{ \"a\": 1 }")},
		`x"a"`:  OrNull("a"),
		`xnull`: OrNull(""),
		`x`:     func() {}, // which no JSON stands for
	} {
		if got := string(Append([]byte("x"), v)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestPlainEnd checks all pairs of bytes, at the end of eight bytes and in their middle.
func TestPlainEnd(t *testing.T) {
	plain := func(b byte) bool { return b >= ' ' && b < 0x7f && b != '"' && b != '\\' }
	const around = "plain 8 bytes and more"
	for pair := range 1 << 16 {
		for _, at := range []int{2, 7, len(around) - 2} {
			text := []byte(around)
			text[at], text[at+1] = byte(pair>>8), byte(pair)
			want := 0
			for want < len(text) && plain(text[want]) {
				want++
			}
			if got := PlainEnd(text, 0); got != want {
				t.Fatalf("%q: %d, want %d", text, got, want)
			}
		}
	}
}

func TestBuffer(t *testing.T) {
	var b Buffer
	b.Release() // there is nothing to give back
	grown := append(b.Take(), make([]byte, 3000)...)
	b.Keep(grown)
	again := append(b.Take(), "one"...)
	if &again[0] != &grown[0] || string(again) != "one" || cap(again) != cap(grown) {
		t.Errorf("took %q with %d bytes, want those that were kept, empty: %d", again, cap(again), cap(grown))
	}
	b.Release()
	if b.memory != nil || len(b.Take()) != 0 {
		t.Error("memory was released and is still held")
	}
}
