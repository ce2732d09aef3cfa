package messages

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/api"
)

// offeredModels have these names. Aliases of the operator have the names in aliases.
type offeredModels struct {
	api.Models
	names, aliases []string
}

func (o offeredModels) Names() []string { return o.names }

func (o offeredModels) Find(name string) (api.Model, bool) {
	if !slices.Contains(o.aliases, name) {
		name = strings.TrimPrefix(name, ModelPrefix)
	}
	return api.Model{Name: name}, true
}

// TestModelsForClaudeCode: Claude Code gets ids that it shows; other clients get the names.
func TestModelsForClaudeCode(t *testing.T) {
	models := offeredModels{names: []string{"gpt-5.5", "my-Claude", "taken", "default"}, aliases: []string{"anthropic/taken"}}
	for client, want := range map[string][]string{
		"claude-code/2.1.330":                {"anthropic/gpt-5.5", "my-Claude", "anthropic/default"},
		"claude-cli/2.1.330 (external, cli)": models.names,
		"Anthropic/JS 1.14.0":                models.names,
	} {
		r := httptest.NewRequest(http.MethodGet, "/v1/models", nil)
		r.Header.Set("User-Agent", client)
		if got := ids(models, r); !slices.Equal(got, want) {
			t.Errorf("%s gets %q", client, got)
		}
	}
}
