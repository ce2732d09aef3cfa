package wirejson

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestCheckJSON(t *testing.T) {
	for _, c := range []struct {
		text    string
		problem string // empty: the text is valid
	}{
		{`{"a":[1,-0.5e+3,true,false,null,"x\n\u00e9\"",{}],"b":{"c":[]}}`, ""},
		{" \t\r\n[ 1 , 2 ] ", ""},
		{`0`, ""}, {`-0`, ""}, {`1E5`, ""}, {`10.01`, ""},
		{`"ü\ud83d\ude00"`, ""},
		{``, "unexpected end, expected a value, at byte 0"},
		{`   `, "unexpected end, expected a value, at byte 3"},
		{`{`, "unexpected end, expected a member's name in quotes, at byte 1"},
		{`{"a"}`, "unexpected '}', expected a colon, at byte 4"},
		{`{"a":}`, "unexpected '}', expected a value, at byte 5"},
		{`{"a":1,}`, "unexpected '}', expected a member's name in quotes, at byte 7"},
		{`{"a":1 "b":2}`, "unexpected '\"', expected a comma or a closing brace, at byte 7"},
		{`[1,]`, "unexpected ']', expected a value, at byte 3"},
		{`[1 2]`, "unexpected '2', expected a comma or a closing bracket, at byte 3"},
		{`[1`, "unexpected end, expected a comma or a closing bracket, at byte 2"},
		{`{} x`, "unexpected data after the JSON value at byte 3"},
		{`{}{}`, "unexpected data after the JSON value at byte 2"},
		{"{}\x00", "unexpected data after the JSON value at byte 2"},
		{"\x00{}", "unexpected character 0x00, expected a value, at byte 0"},
		{"\xef\xbb\xbf{}", "unexpected character 0xef, expected a value, at byte 0"},
		{"[\"a\x00b\"]", "control character 0x00 in a string at byte 3"},
		{"[\"a\nb\"]", "control character 0x0a in a string at byte 3"},
		{"[\"a\xffb\"]", "invalid UTF-8 at byte 3"},
		{"[\"\xed\xa0\x80\"]", "invalid UTF-8 at byte 2"},
		{`"abc`, "unexpected end in a string at byte 4"},
		{`"abc\`, "unexpected end in a string at byte 5"},
		{`"\x"`, "invalid escape in a string at byte 1"},
		{`"\u12g4"`, `invalid \u escape in a string at byte 1`},
		{`"\u12`, `invalid \u escape in a string at byte 1`},
		{`01`, "unexpected data after the JSON value at byte 1"},
		{`-`, "unexpected end, expected a digit, at byte 1"},
		{`1.`, "unexpected end, expected a digit, at byte 2"},
		{`1e+`, "unexpected end, expected a digit, at byte 3"},
		{`.5`, "unexpected '.', expected a value, at byte 0"},
		{`+1`, "unexpected '+', expected a value, at byte 0"},
		{`tru`, "invalid literal, expected true, at byte 0"},
		{`nul`, "invalid literal, expected null, at byte 0"},
		{`falsy`, "invalid literal, expected false, at byte 0"},
		{`NaN`, "unexpected 'N', expected a value, at byte 0"},
	} {
		_, err := check([]byte(c.text), maxDepth)
		switch {
		case err == nil && c.problem != "":
			t.Errorf("%q was accepted, want %q", c.text, c.problem)
		case err != nil && err.Error() != c.problem:
			t.Errorf("%q: %q, want %q", c.text, err.Error(), c.problem)
		}
	}
}

func TestCheckJSONDepth(t *testing.T) {
	for depth, ok := range map[int]bool{maxDepth: true, maxDepth + 1: false, 10_000_000: false} {
		_, err := check([]byte(strings.Repeat("[", depth)+strings.Repeat("]", depth)), maxDepth)
		if (err == nil) != ok {
			t.Errorf("depth %d: %v", depth, err)
		}
		if err != nil && err.offset != maxDepth {
			t.Errorf("depth %d: complained at byte %d", depth, err.offset)
		}
	}
}

var jsonTexts = []string{
	`{"id":1,"result":{"thread":{"id":"thr-2","x":[]}}} `,
	` [ 1 , -0.5e+7 , 1E-2 , true,false,null , {} , [ ] , "" ]`,
	`{"a\"b\\\/\b\f\n\r\t\u00e9\uD83d":"\u0000","é":"Grüße, 你👋","long":"` + strings.Repeat("plain text ", 9) + `"}`,
	`{"":{"":[[[]],{"a":{}}]}}`,
	`-7`,
	`{"a":123456789012345678,"b":[1234567890123456789,10,9],"c":0,"d":10 }`,
}

// TestScanner cuts and changes texts at every byte: the scanner reads those that are JSON, in UTF-8.
func TestScanner(t *testing.T) {
	check := func(text string) {
		t.Helper()
		if got, want := ValidWithin(maxDepth, []byte(text)), json.Valid([]byte(text)) && utf8.ValidString(text); got != want {
			t.Errorf("%q is JSON: %t, it was read: %t", text, want, got)
		}
	}
	for _, text := range jsonTexts {
		check(text)
		for at := range text {
			check(text[:at])
			check(text[at:])
			for _, c := range "\"\\{}[],:x0-.eu \x00\x1f\xff\n" {
				check(text[:at] + string(c) + text[at+1:])
				check(text[:at] + string(c) + text[at:])
			}
		}
	}
}

// TestIntegers checks how numbers are read as integers.
func TestIntegers(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "7": 7, "-7": -7, "1.9": 0, "1e3": 0, "10": 10, `"12"`: 0, "null": 0, "{}": 0,
		"999999999999999999": 999999999999999999, "9223372036854775807": math.MaxInt64, "-9223372036854775808": math.MinInt64,
	} {
		for _, behind := range []string{",", "}", " ,", "\n}", "]"} {
			s := NewScanner([]byte(" "+text+behind), maxDepth)
			if got := s.Integer(); got != want || !s.OK() || string(s.data[s.pos:]) != behind {
				t.Errorf("%s is read as %d, want %d; behind it is %q", text, got, want, s.data[s.pos:])
			}
		}
	}
}

// FuzzCheckJSON holds the checker against encoding/json: what one accepts the
// other accepts, but for the rules that only the checker has.
func FuzzCheckJSON(f *testing.F) {
	for _, seed := range []string{`{"a":[1,2.5e3,"\ud800x",null]}`, `[[[]]]`, `"\u00`, "\"\xff\"", `-01`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		_, err := check(data, maxDepth)
		if err != nil && (err.offset < 0 || err.offset > len(data)) {
			t.Fatalf("offset %d of %d bytes", err.offset, len(data))
		}
		strict := utf8.Valid(data) && strings.Count(string(data), "[")+strings.Count(string(data), "{") <= maxDepth
		if valid := json.Valid(data); err == nil && !valid || err != nil && valid && strict {
			t.Fatalf("check says %v, encoding/json valid=%v", err, valid)
		}
	})
}
