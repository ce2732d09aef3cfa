package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// TestCompare checks what counts as a difference.
func TestCompare(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(committed, "tool-burst-answered.jsonl"))
	must.OK(t, err)
	lines := strings.SplitAfter(string(text), "\n")
	swap := func(old, replacement string) string {
		changed := strings.ReplaceAll(string(text), old, replacement)
		if changed == string(text) {
			t.Fatalf("the recording has no %s", old)
		}
		return changed
	}
	for name, test := range map[string]struct {
		fresh string
		want  string // part of a difference; empty if there is none
	}{
		"the same":                   {string(text), ""},
		"another text":               {swap("All three", "Three all"), ""},
		"a member that nobody reads": {swap(`"phase":null`, `"phase":null,"future":[]`), ""},
		"a member that is gone":      {swap(`"itemId"`, `"item_id"`), "item/agentMessage/delta"},
		"a renamed method":           {swap("rawResponse/completed", "response/completed"), "rawResponse/completed"},
		"another status":             {swap(`"status":"completed","error":null`, `"status":"done","error":null`), "turn/completed"},
		"a parameter of ours":        {swap(`"ephemeral":true,`, ""), "thread/start"},
		"no end":                     {strings.Join(lines[:len(lines)-2], ""), "nothing"},
		"nothing at all":             {"", "and more"},
	} {
		differences := strings.Join(compare(text, []byte(test.fresh)), "\n")
		if test.want == "" && differences != "" || !strings.Contains(differences, test.want) {
			t.Errorf("%s: %q", name, differences)
		}
	}
}
