package messages

import (
	"os"
	"strings"
	"testing"
)

// documented are the fields of the types MessageCreateParams and BetaMessageCreateParams of
// Anthropic's SDK (1.12.0).
const documented = `model messages max_tokens system tools tool_choice thinking output_config output_format stop_sequences
	stream speed temperature top_p top_k metadata service_tier cache_control context_management inference_geo container
	mcp_servers thread compaction fallbacks fallback_credit_token billing_policy diagnostics`

// TestEveryFieldIsDocumented looks for each field in the first column of the table of fields,
// and makes sure that none goes unread.
func TestEveryFieldIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/messages.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "## POST /v1/messages\n")
	text, _, _ = strings.Cut(text, "\n##")
	named := map[string]bool{}
	for line := range strings.Lines(text) {
		if cells := strings.Split(line, "|"); len(cells) > 2 {
			for name := range strings.SplitSeq(cells[1], ",") {
				named[strings.Trim(name, " `")] = true
			}
		}
	}
	for _, field := range strings.Fields(documented) {
		if !named[field] {
			t.Errorf("the page says nothing of %s", field)
		}
		if readers[field] == nil {
			t.Errorf("nobody reads %s", field)
		}
	}
}
