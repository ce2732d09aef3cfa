package caddymodule

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-codex/caddy-codex/internal/gateway"
	"github.com/caddy-codex/caddy-codex/internal/openai"
)

// ModelOptions say which models clients may ask for, and what they get of
// them.
type ModelOptions struct {
	// Names of your own for Codex's models. GET /v1/models lists them after those
	// that Codex lists. A name that Codex lists as well stands for yours.
	Models []ModelAlias `json:"models,omitempty"`

	// Whether images that a request names by an https URL are fetched for the
	// model. Only public addresses are asked, and images are bounded in number,
	// size and time. Default: false; such a request is refused.
	ImageFetch bool `json:"image_fetch,omitempty"`

	// Whether clients get the summaries of the model's reasoning, as
	// reasoning_content and as reasoning items. Default: true.
	Reasoning *bool `json:"reasoning,omitempty"`

	// Where the instructions of a conversation go, its system and developer
	// messages at the beginning: "replace", in the place of Codex's own prompt;
	// "append", behind that; or "auto", replace, but append once the model's
	// provider has refused that for the login. Default: auto.
	Instructions string `json:"instructions,omitempty"`
}

// placings are the values of instructions.
var placings = []string{string(gateway.InstructionsAuto), string(gateway.InstructionsReplace), string(gateway.InstructionsAppend)}

// ModelAlias is a name of the operator's own for a model.
type ModelAlias struct {
	// The name by which clients ask for it.
	ID string `json:"id"`

	// Codex's name of the model. Default: the same.
	Model string `json:"model,omitempty"`

	// The reasoning effort of requests that name none: none, minimal, low,
	// medium, high, xhigh or max. Default: the model's own.
	Effort string `json:"effort,omitempty"`
}

func (o *ModelOptions) setDefaults() {
	defaultTo(&o.Reasoning, new(true))
	defaultTo(&o.Instructions, placings[0])
}

func (o *ModelOptions) validate() error {
	if !slices.Contains(placings, o.Instructions) {
		return fmt.Errorf("instructions: must be one of %s, not %q", strings.Join(placings, ", "), o.Instructions)
	}
	seen := make(map[string]bool, len(o.Models))
	for _, m := range o.Models {
		switch {
		case strings.TrimSpace(m.ID) == "":
			return errors.New("model: the id must not be empty")
		case seen[m.ID]:
			return fmt.Errorf("model: %s is named twice", m.ID)
		case m.Effort != "" && !slices.Contains(openai.Efforts, m.Effort):
			return fmt.Errorf("model: the effort of %s must be one of %s, not %q", m.ID, strings.Join(openai.Efforts, ", "), m.Effort)
		}
		seen[m.ID] = true
	}
	return nil
}

// aliases are the models as the gateway takes them.
func (o *ModelOptions) aliases() []openai.Alias {
	var aliases []openai.Alias
	for _, m := range o.Models {
		alias := openai.Alias{ID: m.ID, Model: m.Model, Effort: m.Effort}
		defaultTo(&alias.Model, alias.ID)
		aliases = append(aliases, alias)
	}
	return aliases
}

// directives are the Caddyfile options of models.
func (o *ModelOptions) directives() map[string]option {
	return map[string]option{
		"model":        {parse: o.parseModel, repeats: true},
		"image_fetch":  {parse: flagOption(&o.ImageFetch)},
		"reasoning":    {parse: switchOption(&o.Reasoning)},
		"instructions": {parse: oneOf(&o.Instructions, placings)},
	}
}

// parseModel reads <id> [<codex model> [<effort>]].
func (o *ModelOptions) parseModel(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args) == 0 || len(args) > 3 {
		return d.ArgErr()
	}
	alias := ModelAlias{ID: args[0]}
	if len(args) > 1 {
		alias.Model = args[1]
	}
	if len(args) > 2 {
		if err := isOneOf(d, args[2], openai.Efforts); err != nil {
			return err
		}
		alias.Effort = args[2]
	}
	if slices.ContainsFunc(o.Models, func(m ModelAlias) bool { return m.ID == alias.ID }) {
		return d.Errf("model %s is given twice", alias.ID)
	}
	o.Models = append(o.Models, alias)
	return nil
}
