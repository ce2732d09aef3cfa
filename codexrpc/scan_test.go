package codexrpc

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
)

var jsonTexts = []string{
	`{"id":1,"result":{"thread":{"id":"thr-2","x":[]}}} `,
	` [ 1 , -0.5e+7 , 1E-2 , true,false,null , {} , [ ] , "" ]`,
	`{"a\"b\\\/\b\f\n\r\t\u00e9\uD83d":"\u0000","é":"Grüße, 你👋","long":"` + strings.Repeat("plain text ", 9) + `"}`,
	`{"":{"":[[[]],{"a":{}}]}}`,
	`-7`,
	`{"a":123456789012345678,"b":[1234567890123456789,10,9],"c":0,"d":10 }`,
}

// TestScanner cuts and changes texts at every byte: the scanner reads those that are JSON.
func TestScanner(t *testing.T) {
	check := func(text string) {
		t.Helper()
		if got, want := isJSON([]byte(text)), json.Valid([]byte(text)); got != want {
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
		"0": 0, "7": 7, "-7": -7, "1.9": 1, "1e3": 1000, "10": 10, `"12"`: 12, "null": 0, "{}": 0,
		"999999999999999999": 999999999999999999, "9223372036854775807": math.MaxInt64, "-9223372036854775808": math.MinInt64,
	} {
		for _, behind := range []string{",", "}", " ,", "\n}", "]"} {
			s := scanner{line: []byte(" " + text + behind), ok: true}
			if got := s.integer(); got != want || !s.ok || string(s.line[s.pos:]) != behind {
				t.Errorf("%s is read as %d, want %d; behind it is %q", text, got, want, s.line[s.pos:])
			}
		}
	}
}

// FuzzScanner compares the scanner with encoding/json.
func FuzzScanner(f *testing.F) {
	for _, text := range jsonTexts {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got, want := isJSON([]byte(text)), json.Valid([]byte(text)); got != want && len(text) <= maxNesting {
			t.Errorf("%q is JSON: %t, it was read: %t", text, want, got)
		}
	})
}

// TestNesting: values that are nested without end are no message, and do not exhaust the
// stack of the reader.
func TestNesting(t *testing.T) {
	c := newTestConn()
	for _, open := range []string{"[", `{"a":`, `[{"a":`} {
		for name, line := range map[string]string{
			"method": `{"method":"item/completed","params":{"item":` + strings.Repeat(open, 4<<20),
			"answer": `{"id":1,"result":` + strings.Repeat(open, 4<<20),
		} {
			before := c.Stats().Garbage
			c.dispatch([]byte(line))
			if after := c.Stats().Garbage; after != before+1 {
				t.Errorf("%s of %s: %d lines were garbage, then %d", name, open, before, after)
			}
		}
	}
	deep := strings.Repeat("[", 200) + strings.Repeat("]", 200)
	if m, err := parseMessage([]byte(`{"id":1,"method":"item/tool/call","params":{"arguments":`+deep+`}}`), new(Event)); err != nil || m.id != "1" {
		t.Errorf("what Codex may write is no message: %v", err)
	}
}
