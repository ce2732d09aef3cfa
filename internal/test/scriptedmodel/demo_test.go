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
		{"What is the weather in Paris?", demoTools, []string{"You said", "(2)", `"use the tool" or ` + "`get_weather`"}},
		{"Help", demoTools, directiveWords()},
		{" ", nil, []string{"no text"}},
		{"<system-reminder>\nRules.\n</system-reminder>\n\nSay hello.", nil, []string{"You said: “Say hello.”"}},
		{"<current_datetime>2026-11-26T01:06:57.932+00:00</current_datetime>\n\nhelp", nil, directiveWords()},
		{"delay=1ns; Hello", nil, []string{"You said: “Hello”"}},
	}
	s := start(t)
	for _, c := range cases {
		a := s.prompt(c.question, object{"tools": c.tools})
		for _, want := range c.want {
			if !strings.Contains(a.text, want) || len(a.calls) != 0 {
				t.Errorf("%q: answered %q and %v, want %q", c.question, a.text, a.calls, want)
			}
		}
	}
}

// TestDemoCalls: the demo calls the tool asked for, as its schema says, and quotes the result.
func TestDemoCalls(t *testing.T) {
	weather := object{"type": "function", "name": "get_weather", "parameters": object{
		"type": "object", "required": []any{"city", "days", "unit", "sure", "list", "more"},
		"properties": object{
			"city": object{"type": "string"}, "days": object{"type": "integer"}, "unit": object{"type": "string", "enum": []any{"C", "F"}},
			"sure": object{"type": "boolean"}, "list": object{"type": "array"}, "more": object{"type": "object"}, "left": object{"type": "string"},
		},
	}}
	search := object{"type": "function", "name": "search", "parameters": object{"type": "object", "required": []any{"query"}}}
	cases := []struct{ question, name, arguments string }{
		{"What is the weather in Oslo? Use the tool.", "get_weather", `{"city":"Oslo","days":1,"list":[],"more":{},"sure":true,"unit":"C"}`},
		{"please search notes", "search", `{"query":"please search notes"}`},
		{"Try a tool", "get_weather", `{"city":"Try a tool","days":1,"list":[],"more":{},"sure":true,"unit":"C"}`},
		{"What is a tool? Use it.", "", ""},
		{"Use the tool. " + strings.Repeat("Rules. ", 100), "", ""},
	}
	s := start(t)
	for _, c := range cases {
		calls := s.prompt(c.question, object{"tools": []any{weather, search}}).calls
		if c.name == "" && len(calls) == 0 {
			continue
		}
		if len(calls) != 1 || calls[0].Name != c.name || calls[0].Arguments != c.arguments {
			t.Errorf("%q: it calls %+v", c.question, calls)
		}
	}
	if calls := s.prompt("Use the tool.", nil).calls; len(calls) != 0 {
		t.Errorf("without tools it calls %+v", calls)
	}
	if lines := strings.Count(HelpText, "\n") + 1; lines != 6 {
		t.Errorf("the help has %d lines", lines)
	}
}

func directiveWords() (words []string) {
	for _, name := range directiveNames {
		words = append(words, "`"+name)
	}
	return words
}

// TestDemoFormats checks that an answer which has to be JSON is.
func TestDemoFormats(t *testing.T) {
	s := start(t)
	const (
		said   = `"You said: “help”"`
		free   = `{"answer":` + said + `}`
		nested = `{"type":"object","required":["ok","to"],"properties":{"ok":{"type":"boolean"},"to":{"type":"object","required":["a"],"properties":{"a":{"type":"string"}}}}}`
	)
	for _, c := range []struct {
		format object
		want   string
	}{
		{object{"type": "json_schema", "name": "n", "schema": json.RawMessage(`{"type":"object"}`)}, free},
		{object{"type": "json_schema", "name": "n", "schema": json.RawMessage(nested)}, `{"ok":true,"to":{"a":` + said + `}}`},
		{object{"type": "json_object"}, free},
	} {
		if got := s.prompt("help", object{"text": object{"format": c.format}}).text; got != c.want {
			t.Errorf("%v: answered %s, want %s", c.format, got, c.want)
		}
	}
}
