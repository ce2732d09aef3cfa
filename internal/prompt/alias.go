package prompt

import (
	"slices"
	"strings"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// DefaultModel is how clients ask for the app-server's default model, unless an alias has this name.
const DefaultModel = "default"

// Alias is a name that the operator gives to one of Codex's models.
type Alias struct {
	// The name by which clients ask for the model, or a pattern: the beginning of names and a `*`.
	// An alias with the whole name is used first, then the first pattern that matches. Placeholders
	// in the name and in the model are resolved when the configuration is loaded.
	ID string `json:"id" option:"<text>"`

	// Codex's name of the model. Default: the name of the alias.
	Model string `json:"model,omitempty" option:"id [<text>]"`

	// The reasoning effort of requests that name none. Default: the model's own effort.
	Effort string `json:"effort,omitempty" option:"id [none|minimal|low|medium|high|xhigh|max]"`

	// Whether the effort also replaces the effort that a request names, for clients that always
	// name one. Default: false.
	ForceEffort bool `json:"force_effort,omitempty" option:"id [force]"`
}

// ModelNames returns the allowed names: of models that are not hidden, of aliases that are no patterns,
// both in their given order, and [DefaultModel]. An alias replaces a model with the same name.
func ModelNames(models []codexrpc.Model, aliases []Alias, allowed func(id string) bool) []string {
	var names []string
	for _, m := range models {
		if !m.Hidden && m.ID != DefaultModel && !isAlias(aliases, m.ID) {
			names = append(names, m.ID)
		}
	}
	for _, a := range aliases {
		if _, isPattern := a.prefix(); !isPattern {
			names = append(names, a.ID)
		}
	}
	if !isAlias(aliases, DefaultModel) {
		names = append(names, DefaultModel)
	}
	return slices.DeleteFunc(names, func(id string) bool { return !allowed(id) })
}

// KnownModel reports whether a name belongs to a model, matches an alias, or is [DefaultModel].
func KnownModel(models []codexrpc.Model, aliases []Alias, id string) bool {
	return id == DefaultModel || FindAlias(aliases, id) != nil ||
		slices.ContainsFunc(models, func(m codexrpc.Model) bool { return m.ID == id })
}

func (a *Alias) prefix() (prefix string, isPattern bool) { return strings.CutSuffix(a.ID, "*") }

// FindAlias returns the alias with this name, else the first whose pattern matches, or nil.
func FindAlias(aliases []Alias, id string) *Alias {
	var matching *Alias
	for i := range aliases {
		if aliases[i].ID == id {
			return &aliases[i]
		}
		if prefix, isPattern := aliases[i].prefix(); isPattern && strings.HasPrefix(id, prefix) && matching == nil {
			matching = &aliases[i]
		}
	}
	return matching
}

func isAlias(aliases []Alias, id string) bool {
	return slices.ContainsFunc(aliases, func(a Alias) bool { return a.ID == id })
}
