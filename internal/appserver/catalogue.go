package appserver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// modelChanges are members that each model in the catalogue gets in place of its own. With them, Codex
// offers no tools of its own, passes service tiers on, and does not replace a long history by a summary: the
// provider decides whether a history is too long. No other setting has these effects.
var modelChanges = map[string]json.RawMessage{
	"tool_mode":                    json.RawMessage(`"direct"`), // the model calls tools directly, not through exec and wait
	"apply_patch_tool_type":        json.RawMessage(`null`),     // no apply_patch
	"experimental_supported_tools": json.RawMessage(`[]`),       // no clock, no messages to the user
	"multi_agent_version":          json.RawMessage(`null`),     // no agents
	"supports_search_tool":         json.RawMessage(`false`),    // no search for tools
	"context_window":               json.RawMessage(`null`),     // this and the next two: no summary in place of a long history
	"max_context_window":           json.RawMessage(`null`),
	"auto_compact_token_limit":     json.RawMessage(`null`),
	"service_tiers":                json.RawMessage(serviceTiers), // the provider decides whether a model has a tier
}

// notLite is a further change for the file [Model].Full of a lite model. Without it, Codex lets a
// lite model call only one tool at a time.
var notLite = map[string]json.RawMessage{"use_responses_lite": json.RawMessage(`false`)}

// serviceTiers are the service tiers in a model's entry. Codex passes no other tiers on to the provider.
const serviceTiers = `[{"id":"priority","name":"","description":""},{"id":"scale","name":"","description":""}]`

// fallbackCatalogue is for models that Codex does not know. The name of its only model is empty: a prefix
// of every name. The rest is what Codex assumes for an unknown model, but without a context window.
const fallbackCatalogue = `{"models":[{"slug":"","display_name":"","supported_reasoning_levels":[],"shell_type":"default",` +
	`"visibility":"none","supported_in_api":true,"priority":99,"base_instructions":"","support_verbosity":false,` +
	`"truncation_policy":{"mode":"bytes","limit":10000},"experimental_supported_tools":[],"service_tiers":` + serviceTiers + `}]}`

// backendModelsFile is the file in CODEX_HOME in which Codex stores the list of models of the
// login's back end. Its entries have the same form as those of the catalogue.
const backendModelsFile = "models_cache.json"

// catalogue has the models of an instance: the models that the program knows, and the models that
// are only in the list of the login's back end.
type catalogue struct {
	dir          string // the directory for the files of the models
	fallbackPath string // the path of the file with fallbackCatalogue
	window       int    // the operator's model_context_window, in tokens; 0: it is not set
	backendPath  string // the path of the file with the back end's models
	log          func() *slog.Logger

	mu              sync.Mutex
	models          []Model
	looked          time.Time // when backendPath was looked at last; zero: never
	backendModified time.Time // the modification time of backendPath when the file was last read; zero: it was never read
}

// Model describes a model in Codex's catalogue or in the back end's list. The zero Model stands for
// a model that is in neither of them.
type Model struct {
	Slug   string // its name
	Prompt string // "base_instructions": Codex's own prompt for the model; empty: not known
	// Lite is "use_responses_lite". In a thread without tools, a lite model may get the base prompt
	// twice. Codex does not send an empty base prompt to a lite model.
	Lite bool
	// Catalogue is the path of the file for model_catalog_json in the settings of a thread with
	// this model. With this file, Codex offers no tools of its own and does not shorten the
	// history. The file has only this model, since each thread keeps its catalogue in memory: a
	// catalogue of all models would take 1 MB more for each thread. Empty: there is no file.
	Catalogue string
	// Full is the path of another file for model_catalog_json, in which "use_responses_lite" is
	// false. With this file (the full form), the model can call several tools at a time, and the
	// provider can run web searches. Empty: the model is not lite.
	Full string
	// Efforts is "supports_reasoning_effort_updates": the effort may change in a conversation.
	Efforts bool

	// Clients may see these. Each is zero if the model's entry lacks the member.
	Title       string // "display_name"
	Window      int    // "context_window" in tokens, before modelChanges removes it
	Blind       bool   // the model takes no pictures: "input_modalities" is given and does not list "image"
	Least, Most string // the lowest and the highest effort in "supported_reasoning_levels"

	hidden   bool // "visibility" is not "list"
	priority int  // the order in lists, the lowest first; the default model has 1
}

func (c *catalogue) list() []codexrpc.Model {
	c.mu.Lock()
	defer c.mu.Unlock()
	sorted := slices.SortedStableFunc(slices.Values(c.models), func(a, b Model) int { return a.priority - b.priority })
	list := make([]codexrpc.Model, len(sorted))
	for i, m := range sorted {
		list[i] = codexrpc.Model{ID: m.Slug, Model: m.Slug, Hidden: m.hidden}
	}
	return list
}

// find returns the entry of a model. It looks the name up as Codex does: the name is a slug,
// perhaps with a suffix such as a date, and perhaps after the name of a provider and a slash. For
// an unknown name, find returns a Model without a name; if c is nil, the zero Model.
func (c *catalogue) find(name string) Model {
	if c == nil {
		return Model{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	found := longestMatch(c.models, name)
	if found == nil || time.Since(c.looked) > lookPause {
		c.looked = time.Now()
		c.addBackendModels()
		found = longestMatch(c.models, name)
	}
	model := *cmp.Or(found, new(Model))
	if c.window > 0 {
		model.Window = c.window
	}
	return model
}

// lookPause is the least time between two looks for a new list of the back end, unless a model is not known.
const lookPause = time.Second

func longestMatch(models []Model, name string) (found *Model) {
	for _, name := range []string{name, name[strings.LastIndexByte(name, '/')+1:]} {
		for i := range models {
			entry := &models[i]
			if (name == entry.Slug || strings.HasPrefix(name, entry.Slug+"-")) && (found == nil || len(entry.Slug) > len(found.Slug)) {
				found = entry
			}
		}
	}
	return found
}

// addBackendModels adds the models that only the back end lists, and takes the windows of all others from it,
// if Codex has stored a new list. For a model that is not added, Codex would use the back end's entry
// unchanged, and offer its own tools. The caller holds the lock.
func (c *catalogue) addBackendModels() {
	info, err := os.Stat(c.backendPath)
	if err != nil || info.ModTime().Equal(c.backendModified) {
		return // there is no list (as without a login), or it was read before
	}
	c.backendModified = info.ModTime()
	list, err := readBounded(c.backendPath, maxCatalogue)
	if err == nil {
		err = c.add(list)
	}
	if err != nil {
		c.log().Warn("the models that the provider lists cannot be read; those that codex does not know are used without their properties", "error", err)
	}
}

// newCatalogue makes a catalogue from printed, the output of Codex, and writes the models' files and
// fallbackCatalogue to home. log is for later warnings that the back end's list cannot be read.
func newCatalogue(printed []byte, home *privateHome, log func() *slog.Logger) (*catalogue, error) {
	c := &catalogue{dir: home.path, fallbackPath: filepath.Join(home.path, "fallback.json"), window: int(home.config.ModelContextWindow), backendPath: home.codexFile(backendModelsFile), log: log}
	if err := c.add(printed); err != nil {
		return nil, fmt.Errorf("the catalogue of codex models: %w", err)
	}
	if err := os.WriteFile(c.fallbackPath, []byte(fallbackCatalogue), 0o600); err != nil {
		return nil, fmt.Errorf("writing the catalogue of codex models: %w", err)
	}
	return c, nil
}

// add adds the models of a list that are new and have a name, and writes their files. Other models get the
// windows that the list has.
func (c *catalogue) add(list []byte) error {
	models, err := parseModels(list)
	if err != nil {
		return err
	}
	for _, model := range models {
		slug := model.entry.Slug
		at := slices.IndexFunc(c.models, func(m Model) bool { return m.Slug == slug })
		if at >= 0 {
			c.models[at].Window = model.entry.Window
		}
		if at >= 0 || slug == "" {
			continue
		}
		if len(c.models) == maxModels {
			return fmt.Errorf("there are more than %d models", maxModels)
		}
		if err := c.write(&model); err != nil {
			return fmt.Errorf("writing the properties of a model: %w", err)
		}
		c.models = append(c.models, model.entry)
	}
	return nil
}

func (c *catalogue) write(model *listedModel) error {
	name := filepath.Join(c.dir, fmt.Sprintf("model-%d", len(c.models)))
	model.entry.Catalogue = name + ".json"
	if err := os.WriteFile(model.entry.Catalogue, model.catalogueJSON(modelChanges), 0o600); err != nil || !model.entry.Lite {
		return err
	}
	model.entry.Full = name + "-full.json"
	return os.WriteFile(model.entry.Full, model.catalogueJSON(modelChanges, notLite), 0o600)
}

// maxModels bounds a catalogue, since each model gets a file. Codex has some twenty.
const maxModels = 1000

type listedModel struct {
	entry   Model
	members map[string]json.RawMessage
}

// catalogueJSON returns a catalogue of only this model with the changes applied. Other members
// stay, even those that this release of Codex does not know. [json.Marshal] would parse all values
// again: with it, an app-server took a third longer to start.
func (m *listedModel) catalogueJSON(changes ...map[string]json.RawMessage) []byte {
	members := maps.Clone(m.members)
	for _, change := range changes {
		maps.Copy(members, change)
	}
	text, separator := []byte(`{"models":[`), byte('{')
	for _, name := range slices.Sorted(maps.Keys(members)) {
		text = append(append(wirejson.AppendString(append(text, separator), name), ':'), members[name]...)
		separator = ','
	}
	return append(text, `}]}`...)
}

func parseModels(list []byte) ([]listedModel, error) {
	var all struct {
		Models []map[string]json.RawMessage `json:"models"`
	}
	if err := json.Unmarshal(list, &all); err != nil {
		return nil, err
	}
	switch n := len(all.Models); {
	case n == 0:
		return nil, errors.New("it has no models")
	case n > maxModels:
		return nil, fmt.Errorf("it has %d models; the most is %d", n, maxModels)
	}
	models := make([]listedModel, len(all.Models))
	for i, members := range all.Models {
		if members == nil {
			return nil, fmt.Errorf("its model %d is not an object", i)
		}
		models[i] = listedModel{entryOf(members), members}
	}
	return models, nil
}

// entryOf returns the Model for an entry of Codex's catalogue. It skips members of a wrong type.
func entryOf(model map[string]json.RawMessage) (entry Model) {
	_ = json.Unmarshal(model["slug"], &entry.Slug)
	_ = json.Unmarshal(model["base_instructions"], &entry.Prompt)
	_ = json.Unmarshal(model["use_responses_lite"], &entry.Lite)
	_ = json.Unmarshal(model["supports_reasoning_effort_updates"], &entry.Efforts)
	_ = json.Unmarshal(model["priority"], &entry.priority)
	_ = json.Unmarshal(model["display_name"], &entry.Title)
	_ = json.Unmarshal(model["context_window"], &entry.Window)
	entry.Least, entry.Most = effortsOf(model["supported_reasoning_levels"])
	var modalities []string
	_ = json.Unmarshal(model["input_modalities"], &modalities)
	entry.Blind = modalities != nil && !slices.Contains(modalities, "image")
	var visibility string
	_ = json.Unmarshal(model["visibility"], &visibility)
	entry.hidden = visibility != "list"
	return entry
}

// effortsOf returns the lowest and the highest of the efforts that both a model accepts and a request may
// ask for; empty: there is none.
func effortsOf(levels json.RawMessage) (least, most string) {
	var accepted []struct{ Effort string }
	_ = json.Unmarshal(levels, &accepted)
	for _, effort := range codexrpc.Efforts {
		for _, a := range accepted {
			if a.Effort == effort {
				least, most = cmp.Or(least, effort), effort
			}
		}
	}
	return least, most
}

// Model returns what is known of a model.
func (in *Instance) Model(name string) Model { return in.models.find(name) }

// Model returns what is known of a model, by the app-server that serves or served last.
func (p *Process) Model(name string) Model {
	if in := p.published.latestInstance(); in != nil {
		return in.Model(name)
	}
	return Model{}
}

// Windows returns the context windows of the models that the app-server lists, in tokens; 0: not known.
func (p *Process) Windows(ctx context.Context) map[string]int {
	windows := make(map[string]int)
	if in := p.Ready(); in != nil {
		models, _ := in.Models(ctx) // none after an error
		for _, m := range models {
			windows[m.ID] = in.Model(m.Model).Window
		}
	}
	return windows
}

// FallbackCatalogue returns the path of a file like [Model].Catalogue, for a model that neither
// Codex nor the back end of the login knows. Without this file, Codex would replace a long history
// by a summary. Empty: there is no file.
func (in *Instance) FallbackCatalogue() string {
	if in.models == nil {
		return ""
	}
	return in.models.fallbackPath
}
