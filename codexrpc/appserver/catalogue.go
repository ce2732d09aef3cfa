package appserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// catalogueRelease is the minor version of the first release of Codex that is known to
// read the catalogue of a thread.
const catalogueRelease = 169

// ignoresCatalogue returns an error if a release does not read the catalogue of a thread.
func ignoresCatalogue(version string) error {
	if codexrpc.AtLeast(version, catalogueRelease) {
		return nil
	}
	return fmt.Errorf("codex %s ignores the catalogue of a thread; use 0.%d or newer", version, catalogueRelease)
}

// changes are the members of each model in the catalogue that are set to other
// values: those by which Codex offers tools of its own, and those by which it
// replaces a long history by a summary, and the service tiers. No other setting does
// that. Whether a history is too long is then the provider's decision.
var changes = map[string]json.RawMessage{
	"tool_mode":                    json.RawMessage(`"direct"`), // no exec and wait around the tools
	"apply_patch_tool_type":        json.RawMessage(`null`),     // no apply_patch
	"experimental_supported_tools": json.RawMessage(`[]`),       // no clock, no messages to the user
	"multi_agent_version":          json.RawMessage(`null`),     // no agents
	"supports_search_tool":         json.RawMessage(`false`),    // no search for tools
	"context_window":               json.RawMessage(`null`),     // no compaction
	"max_context_window":           json.RawMessage(`null`),
	"auto_compact_token_limit":     json.RawMessage(`null`),
	"service_tiers":                json.RawMessage(serviceTiers), // the provider decides whether a model has a tier
}

// serviceTiers are the tiers that Codex passes on only for models that have them.
const serviceTiers = `[{"id":"priority","name":"","description":""},{"id":"scale","name":"","description":""}]`

// fallback is a catalogue of one model whose empty name is a prefix of every
// name. It has the properties that Codex assumes of a model that it does not
// know, but no context window.
const fallback = `{"models":[{"slug":"","display_name":"","supported_reasoning_levels":[],"shell_type":"default",` +
	`"visibility":"none","supported_in_api":true,"priority":99,"base_instructions":"","support_verbosity":false,` +
	`"truncation_policy":{"mode":"bytes","limit":10000},"experimental_supported_tools":[],"service_tiers":` + serviceTiers + `}]}`

// catalogue has the models of an instance. The zero catalogue has none.
type catalogue struct {
	fallback string // the file with fallback
	models   []Model
}

// Model is a model of Codex's catalogue. The zero Model is one that is not in it.
type Model struct {
	Slug   string // its name
	Prompt string // "base_instructions", Codex's own; empty: not known
	// Lite models ("use_responses_lite") may get the base prompt of a thread twice if the
	// thread has no tools, and get none if it is empty.
	Lite bool
	// Catalogue is the file for model_catalog_json of a thread with this model, by which
	// Codex offers no tools of its own and gets the whole history. It has this model alone,
	// since each thread holds its catalogue: that of all models takes another MB. Empty:
	// there is none.
	Catalogue string
}

// find returns the entry of a model, which is named by its slug or is a dated
// version of one, as Codex looks it up. It returns nil for an unknown model.
func (c *catalogue) find(model string) (found *Model) {
	for i := range c.models {
		entry := &c.models[i]
		if (model == entry.Slug || strings.HasPrefix(model, entry.Slug+"-")) && (found == nil || len(entry.Slug) > len(found.Slug)) {
			found = entry
		}
	}
	return found
}

// writeCatalogue changes a catalogue as printed by Codex and writes it to dir, one
// file for each model, with the fallback beside them.
func writeCatalogue(printed []byte, dir string) (catalogue, error) {
	models, contents, err := changeCatalogue(printed)
	if err != nil {
		return catalogue{}, fmt.Errorf("the catalogue of codex models: %w", err)
	}
	c := catalogue{fallback: filepath.Join(dir, "fallback.json"), models: models}
	err = os.WriteFile(c.fallback, []byte(fallback), 0o600)
	for i, content := range contents {
		c.models[i].Catalogue = filepath.Join(dir, fmt.Sprintf("model-%d.json", i))
		err = errors.Join(err, os.WriteFile(c.models[i].Catalogue, content, 0o600))
	}
	if err != nil {
		return catalogue{}, fmt.Errorf("writing the catalogue of codex models: %w", err)
	}
	return c, nil
}

// maxModels bounds the models of a catalogue, each of which gets a file. Codex has
// some twenty.
const maxModels = 1000

// changeCatalogue makes the changes in each model of a catalogue. It returns the
// models that have a name, and for each a catalogue of it alone. All other members of
// a model keep their values, also those that this release of Codex does not know.
func changeCatalogue(printed []byte) (models []Model, contents [][]byte, err error) {
	var all struct {
		Models []map[string]json.RawMessage `json:"models"`
	}
	if err := json.Unmarshal(printed, &all); err != nil {
		return nil, nil, err
	}
	switch n := len(all.Models); {
	case n == 0:
		return nil, nil, errors.New("it has no models")
	case n > maxModels:
		return nil, nil, fmt.Errorf("it has %d models; the most is %d", n, maxModels)
	}
	for i, model := range all.Models {
		if model == nil {
			return nil, nil, fmt.Errorf("its model %d is not an object", i)
		}
		maps.Copy(model, changes)
		changed, err := json.Marshal(model)
		if err != nil {
			return nil, nil, err
		}
		if entry := entryOf(model); entry.Slug != "" {
			models = append(models, entry)
			contents = append(contents, slices.Concat([]byte(`{"models":[`), changed, []byte(`]}`)))
		}
	}
	return models, contents, nil
}

// entryOf returns what is known of a model in Codex's catalogue. Members of another type are
// left out.
func entryOf(model map[string]json.RawMessage) (entry Model) {
	_ = json.Unmarshal(model["slug"], &entry.Slug)
	_ = json.Unmarshal(model["base_instructions"], &entry.Prompt)
	_ = json.Unmarshal(model["use_responses_lite"], &entry.Lite)
	return entry
}

// liteRelease is the minor version of the first release of Codex that is known to
// send no base prompt if it is empty.
const liteRelease = 166

// Model returns what the app-server has for a model. A remote app-server reads its own
// catalogue, which it must be started with; which models are lite is not known there.
func (p *Process) Model(name string) Model {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cfg.Connect != "" {
		return Model{Lite: codexrpc.AtLeast(p.status.Version, liteRelease)}
	}
	if entry := p.models.find(name); entry != nil {
		return *entry
	}
	return Model{}
}
