package caddymodule

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-codex/caddy-codex/internal/models"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
)

// checkModels refuses aliases that cannot work.
func (h *Handler) checkModels() error {
	seen := make(map[string]bool, len(h.Models))
	for _, m := range h.Models {
		effort := isOneOf(m.Effort, prompt.Efforts)
		switch {
		case strings.TrimSpace(m.ID) == "":
			return errors.New("the id must not be empty")
		case seen[m.ID]:
			return fmt.Errorf("%s is named twice", m.ID)
		case m.Effort != "" && effort != nil:
			return fmt.Errorf("the effort of %s: %w", m.ID, effort)
		case m.ForceEffort && m.Effort == "":
			return fmt.Errorf("%s has no effort to force", m.ID)
		}
		seen[m.ID] = true
	}
	return nil
}

// newAliases returns the models as the gateway takes them. It refuses a placeholder that
// resolves to nothing: Codex has no model of its name.
func (h *Handler) newAliases(repl *caddy.Replacer) ([]models.Alias, error) {
	var aliases []models.Alias
	seen := make(map[string]bool, len(h.Models))
	for i, m := range h.Models {
		id, err := repl.ReplaceOrErr(m.ID, true, true)
		model, modelErr := repl.ReplaceOrErr(m.Model, true, true)
		switch {
		case errors.Join(err, modelErr) != nil:
			return nil, fmt.Errorf("model %d has a placeholder that is empty or unknown", i+1)
		case seen[id]:
			return nil, fmt.Errorf("model %d has the name of another one, %s", i+1, id)
		}
		seen[id] = true
		m.ID, m.Model = id, cmp.Or(model, id)
		aliases = append(aliases, m)
	}
	return aliases, nil
}
