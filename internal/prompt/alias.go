package prompt

import (
	"slices"
	"strings"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// DefaultModel is the name by which clients ask for the app-server's default model. An alias with
// this name takes precedence.
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

// ModelNames returns the names that are allowed: first the models that are not hidden, then the
// aliases without a pattern, both in their given order, then [DefaultModel]. No name occurs twice:
// an alias replaces a model of the same name.
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

// FindAlias returns the alias for a name: the alias with exactly this name, or else the first one
// whose pattern matches. It returns nil if there is none.
func FindAlias(aliases []Alias, id string) *Alias {
	for i := range aliases {
		if aliases[i].ID == id {
			return &aliases[i]
		}
	}
	for i := range aliases {
		if prefix, isPattern := aliases[i].prefix(); isPattern && strings.HasPrefix(id, prefix) {
			return &aliases[i]
		}
	}
	return nil
}

func isAlias(aliases []Alias, id string) bool {
	return slices.ContainsFunc(aliases, func(a Alias) bool { return a.ID == id })
}
