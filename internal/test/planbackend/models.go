package planbackend

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"time"
)

// catalogueTimeout bounds a run of codex for its catalogue, which takes a tenth of a second.
const catalogueTimeout = 30 * time.Second

// catalogues are those of the programs that were asked, in this process.
var catalogues struct {
	sync.Mutex
	of map[string][]json.RawMessage
}

// Catalogue returns the entries of the models that a codex program brings with it.
func Catalogue(codex string) ([]json.RawMessage, error) {
	catalogues.Lock()
	defer catalogues.Unlock()
	if known := catalogues.of[codex]; known != nil {
		return known, nil
	}
	home, err := os.MkdirTemp("", "codex-home-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(home)
	ctx, cancel := context.WithTimeout(context.Background(), catalogueTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, codex, "debug", "models")
	cmd.Env = append(os.Environ(), "CODEX_HOME="+home)
	output, err := cmd.Output()
	var list modelList
	if err == nil {
		err = json.Unmarshal(output, &list)
	}
	if err != nil {
		return nil, fmt.Errorf("asking %s for its models: %w", codex, err)
	}
	if catalogues.of == nil {
		catalogues.of = make(map[string][]json.RawMessage)
	}
	catalogues.of[codex] = list.Models
	return list.Models, nil
}

// modelList is the form of a list of models.
type modelList struct {
	Models []json.RawMessage `json:"models"`
}

// listModels answers with the list of models.
func (b *Backend) listModels(w http.ResponseWriter, _ *http.Request, _ *Login) {
	models, err := b.Models()
	if err != nil {
		writeJSON(w, http.StatusInternalServerError, object{"detail": err.Error()})
		return
	}
	writeJSON(w, http.StatusOK, modelList{models})
}

// Models returns the list of models, by default that of the program.
func (b *Backend) Models() ([]json.RawMessage, error) {
	b.mu.Lock()
	models := b.models
	b.mu.Unlock()
	if models != nil {
		return models, nil
	}
	return Catalogue(b.opts.Codex)
}

// SetModels replaces the list.
func (b *Backend) SetModels(models []json.RawMessage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.models = models
}

// AddModel adds a model to the list: the entry of one that is listed, with another name and
// with changes, such as use_responses_lite.
func (b *Backend) AddModel(slug, like string, changes map[string]any) error {
	models, err := b.Models()
	if err != nil {
		return err
	}
	for _, entry := range models {
		var members map[string]any
		decoder := json.NewDecoder(bytes.NewReader(entry))
		decoder.UseNumber()
		if err := decoder.Decode(&members); err != nil {
			return fmt.Errorf("an entry of the models: %w", err)
		}
		if members["slug"] != like {
			continue
		}
		members["slug"], members["display_name"] = slug, slug
		maps.Copy(members, changes)
		added, err := json.Marshal(members)
		if err != nil {
			return err
		}
		b.SetModels(append(models[:len(models):len(models)], added))
		return nil
	}
	return fmt.Errorf("there is no model %s", like)
}
