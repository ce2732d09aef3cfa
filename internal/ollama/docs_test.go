package ollama

import (
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/docfields"
)

// TestReadersAreDocumented looks for each field that is read in the tables of fields.
func TestReadersAreDocumented(t *testing.T) {
	docfields.Read(t, "../../docs/ollama.md", "## POST /api/chat", chatReaders)
	docfields.Read(t, "../../docs/ollama.md", "## POST /api/generate", generateReaders)
}
