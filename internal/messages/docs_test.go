package messages

import (
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/docfields"
)

// documented are the fields of the types MessageCreateParams and BetaMessageCreateParams of
// Anthropic's SDK (1.12.0).
const documented = `model messages max_tokens system tools tool_choice thinking output_config output_format stop_sequences
	stream speed temperature top_p top_k metadata service_tier cache_control context_management inference_geo container
	mcp_servers thread compaction fallbacks fallback_credit_token billing_policy diagnostics`

// TestEveryFieldIsDocumented looks for each field in the first column of the table of fields,
// and makes sure that none goes unread.
func TestEveryFieldIsDocumented(t *testing.T) {
	named := docfields.Named(t, "../../docs/messages.md", "## POST /v1/messages")
	for _, field := range strings.Fields(documented) {
		if !named[field] {
			t.Errorf("the page says nothing of %s", field)
		}
		if _, read := readers[field]; !read {
			t.Errorf("nobody reads %s", field)
		}
	}
}

// TestReadersAreDocumented looks for each field that is read in the table of fields.
func TestReadersAreDocumented(t *testing.T) {
	docfields.Read(t, "../../docs/messages.md", "## POST /v1/messages", readers)
}
