package responses

import (
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/docfields"
)

// TestReadersAreDocumented looks for each field that is read in the table of fields.
func TestReadersAreDocumented(t *testing.T) {
	docfields.Read(t, "../../docs/responses.md", "## POST /v1/responses", readers)
}
