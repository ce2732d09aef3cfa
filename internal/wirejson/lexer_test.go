package wirejson

import (
	"encoding/json"
	"strings"
	"testing"
)

// FuzzLexer: of a text that begins with an object, an array or a string, the lexer finds the
// end that encoding/json finds, and is inside of the value until then.
func FuzzLexer(f *testing.F) {
	for _, text := range []string{
		` {"a":["]}\"\\\u00e9",-1.5e+7,true,{}]} behind`, `["a" "b"]`, `"a`, "\"\n\"", `[1 2]`, `{"a":"b"c"}`, `[[[]]]]`, `"\ud800\x"`, "nothing",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		decoder := json.NewDecoder(strings.NewReader(text))
		err := decoder.Decode(new(json.RawMessage))
		begin := len(text) - len(strings.TrimLeft(text, " \t\r\n"))
		if begin == len(text) || strings.IndexByte(`{["`, text[begin]) < 0 {
			err = nil // it has no value that the lexer would read
			begin = len(text)
		}
		var l Lexer
		l.Begin()
		for i := range len(text) {
			verdict := l.Step(text[i])
			switch {
			case verdict == MoreJSON && l.Active() != (i >= begin):
				t.Fatalf("%q: inside is %t at byte %d", text, l.Active(), i)
			case verdict == EndOfJSON && err == nil && int64(i+1) != decoder.InputOffset():
				t.Fatalf("%q ends at %d, want %d", text, i+1, decoder.InputOffset())
			case verdict == BrokenJSON && err == nil:
				t.Fatalf("%q is broken at %d", text, i)
			}
			if verdict != MoreJSON {
				if l.Active() {
					t.Fatalf("%q goes on behind its end", text)
				}
				return
			}
		}
		if err == nil && begin < len(text) {
			t.Fatalf("%q has no end", text)
		}
	})
}
