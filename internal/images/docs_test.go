package images

import (
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/docfields"
)

// TestReadersAreDocumented looks for each field that is read in the tables of fields.
func TestReadersAreDocumented(t *testing.T) {
	docfields.Read(t, "../../docs/images.md", "## Requests", readers)
}
