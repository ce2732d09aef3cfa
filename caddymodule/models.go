package caddymodule

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/models"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
)

// ModelAlias is a name of the operator's own for a model.
type ModelAlias struct {
	// The name by which clients ask for it.
	ID string `json:"id"`

	// Codex's name of the model. Default: the same.
	Model string `json:"model,omitempty"`

	// The reasoning effort of requests that name none: none, minimal, low,
	// medium, high, xhigh or max. Default: the model's own.
	Effort string `json:"effort,omitempty"`

	// Whether the effort is also that of requests that name another one, for
	// clients that always name one. Default: false.
	ForceEffort bool `json:"force_effort,omitempty"`
}

// checkModels refuses aliases that cannot work.
func (h *Handler) checkModels() error {
	seen := make(map[string]bool, len(h.Models))
	for _, m := range h.Models {
		switch {
		case strings.TrimSpace(m.ID) == "":
			return errors.New("the id must not be empty")
		case seen[m.ID]:
			return fmt.Errorf("%s is named twice", m.ID)
		case m.Effort != "" && !slices.Contains(prompt.Efforts, m.Effort):
			return fmt.Errorf("the effort of %s must be one of %s, not %q", m.ID, list(prompt.Efforts), m.Effort)
		case m.ForceEffort && m.Effort == "":
			return fmt.Errorf("%s has no effort to force", m.ID)
		}
		seen[m.ID] = true
	}
	return nil
}

// aliases returns the models as the gateway takes them.
func (h *Handler) aliases() []models.Alias {
	var aliases []models.Alias
	for _, m := range h.Models {
		aliases = append(aliases, models.Alias{ID: m.ID, Model: cmp.Or(m.Model, m.ID), Effort: m.Effort, ForceEffort: m.ForceEffort})
	}
	return aliases
}
