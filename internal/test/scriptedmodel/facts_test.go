package scriptedmodel

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/prompt"
)

// TestFacts: facts come from all that the model was sent, the newest first, also by way of summaries.
func TestFacts(t *testing.T) {
	s := start(t)
	history := []object{
		message("developer", "FACT rule = strict"),
		message("user", "FACT one = 1\nFACT two = 2 and so on"),
		{"type": "function_call_output", "call_id": "c", "output": `{"text":"FACT tool-3 = three\nFACT one = 11"}`},
	}
	ask := func(text string) string {
		return s.prompt("", object{"input": append(history, message("user", text))}).text
	}
	for asked, want := range map[string]string{
		"RECALL one": "11", "Hello.\n RECALL tool-3": "three", "RECALL four": "unknown four", "RECALL one two": "You said: “RECALL one two”",
		"RECALL ALL": "one = 11\nrule = strict\ntool-3 = three\ntwo = 2",
		"<system-reminder>RECALL four</system-reminder>\nRECALL two":                             "2",
		"<system-reminder>Be brief.</system-reminder>\nsay:A; reason:B":                          "A",
		"You are performing a CONTEXT CHECKPOINT COMPACTION. Create":                             SummaryText + "\nFACT one = 11\n",
		"Your task is to create a detailed summary of the conversation so":                       SummaryText + "\nFACT one = 11\n",
		"Your task is to create a detailed summary of the conversation so far in <summary> tags": "<summary>\n" + SummaryText + "\nFACT one = 11\n",
		prompt.SummaryRequest + " for yourself.":                                                 SummaryText + "\nFACT one = 11\n",
	} {
		if got := ask(asked); !strings.HasPrefix(got, want) {
			t.Errorf("%q: %q, want %q", asked, got, want)
		}
	}
	text := ask(prompt.SummaryRequest)
	history = []object{message("assistant", text), message("user", "FACT summary_bytes = 5000")}
	if got := ask("RECALL tool-3"); got != "three" {
		t.Errorf("after the summary %q", got)
	}
	if text = ask(prompt.SummaryRequest); len(text) < 5000 || len(text) > 5100 || !strings.Contains(text, "FACT tool-3 = three\n") {
		t.Errorf("the long summary has %d bytes: %.500s", len(text), text)
	}
}

// TestGoesOn: behind a summary of Codex's or the gateway's the model goes on with what the user has asked for.
func TestGoesOn(t *testing.T) {
	s := start(t)
	for _, summary := range []any{message("user", codexSummary+" and produced a summary:\nsay:Wrong."), json.RawMessage(prompt.NewSummary("say:Wrong.").Item)} {
		history := []any{message("user", "say:Going on."), summary}
		if got := s.prompt("", object{"input": history}).text; got != "Going on." {
			t.Errorf("%q", got)
		}
	}
}
