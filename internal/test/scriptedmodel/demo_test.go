package scriptedmodel

import (
	"encoding/json"
	"strings"
	"testing"
)

var demoTools = []any{
	object{"type": "function", "name": "request_user_input", "parameters": object{"type": "object"}},
	object{"type": "function", "name": "get_weather", "parameters": object{"type": "object"}},
	object{"type": "function", "name": "webSearch", "parameters": object{"type": "object"}},
}

// TestDemo checks the answers to questions without directives.
func TestDemo(t *testing.T) {
	cases := []struct {
		question string
		tools    []any
		want     []string
	}{
		{"Why is the sky blue?", nil, []string{"You said: “Why is the sky blue?”", "not a real one", "codex login", "help"}},
		{"What is the weather in Paris?", demoTools, []string{"You said", "(2)", `"tool:get_weather {}"`}},
		{"Help", demoTools, directiveWords()},
		{" ", nil, []string{"no text"}},
		{"delay=1ns; Hello", nil, []string{"You said: “Hello”"}},
	}
	s := start(t)
	for _, c := range cases {
		a := s.prompt(c.question, object{"tools": c.tools})
		for _, want := range c.want {
			if !strings.Contains(a.text(), want) || len(a.calls()) != 0 {
				t.Errorf("%q: answered %q and %v, want %q", c.question, a.text(), a.calls(), want)
			}
		}
	}
}

// directiveWords are the names of all directives, which the help explains.
func directiveWords() (words []string) {
	for _, name := range directiveNames {
		words = append(words, "`"+name)
	}
	return words
}

// TestDemoFormats checks that an answer which has to be JSON is.
func TestDemoFormats(t *testing.T) {
	s := start(t)
	for _, format := range []object{
		{"type": "json_schema", "name": "n", "schema": json.RawMessage(`{"type":"object"}`)},
		{"type": "json_object"},
	} {
		if got, want := s.prompt("help", object{"text": object{"format": format}}).text(), `{"answer":"You said: “help”"}`; got != want {
			t.Errorf("%v: answered %s, want %s", format["type"], got, want)
		}
	}
}
