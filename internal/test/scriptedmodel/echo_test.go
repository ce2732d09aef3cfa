package scriptedmodel

import (
	"strings"
	"testing"
)

// TestEcho: a question without directives is quoted, without what clients put before it.
func TestEcho(t *testing.T) {
	s := start(t)
	for question, want := range map[string]string{
		"Why is the sky blue?": "You said: “Why is the sky blue?”",
		"<system-reminder>\nRules.\n</system-reminder>\n\nSay hello.":                              "You said: “Say hello.”",
		"<current_datetime>2026-11-26T01:06:57.932+00:00</current_datetime>\n\nhi":                 "You said: “hi”",
		"<current_datetime>2026-11-26T01:06:57.932+00:00</current_datetime>\n\nsay:by a directive": "by a directive",
		"delay=1ns; Hello":        "You said: “Hello”",
		strings.Repeat("ä", 1000): "You said: “" + strings.Repeat("ä", 200) + "…”",
	} {
		if a := s.prompt(question, nil); a.text != want || len(a.calls) != 0 {
			t.Errorf("%q: answered %q and %v, want %q", question, a.text, a.calls, want)
		}
	}
}

// TestHelp: the help names all directives.
func TestHelp(t *testing.T) {
	for _, name := range directiveNames {
		if !strings.Contains(HelpText, "`"+name) {
			t.Errorf("the help does not name %s", name)
		}
	}
	if lines := strings.Count(HelpText, "\n") + 1; lines != 6 {
		t.Errorf("the help has %d lines", lines)
	}
}
