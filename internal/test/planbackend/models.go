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
	of map[string]modelList
}

// Catalogue returns the entries of the models that a codex program brings with it.
func Catalogue(codex string) ([]json.RawMessage, error) {
	list, err := printed(codex)
	return list.Models, err
}

// printed returns the list that a codex program prints of its models.
func printed(codex string) (list modelList, err error) {
	catalogues.Lock()
	defer catalogues.Unlock()
	if known, ok := catalogues.of[codex]; ok {
		return known, nil
	}
	home, err := os.MkdirTemp("", "codex-home-")
	if err != nil {
		return list, err
	}
	defer os.RemoveAll(home)
	ctx, cancel := context.WithTimeout(context.Background(), catalogueTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, codex, "debug", "models")
	cmd.Env = append(os.Environ(), "CODEX_HOME="+home)
	list.text, err = cmd.Output()
	if err == nil {
		err = json.Unmarshal(list.text, &list)
	}
	if err != nil {
		return modelList{}, fmt.Errorf("asking %s for its models: %w", codex, err)
	}
	if catalogues.of == nil {
		catalogues.of = make(map[string]modelList)
	}
	catalogues.of[codex] = list
	return list, nil
}

// modelList is the form of a list of models.
type modelList struct {
	Models []json.RawMessage `json:"models"`
	// text is the list as printed, since to encode it at each start takes longest; nil: none was.
	text []byte
}

// listModels answers with the list of models.
func (b *Backend) listModels(w http.ResponseWriter, _ *http.Request, _ *Login) {
	list, err := b.list()
	switch {
	case err != nil:
		writeJSON(w, http.StatusInternalServerError, object{"detail": err.Error()})
	case list.text == nil:
		writeJSON(w, http.StatusOK, list)
	default:
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(list.text) // fails if the client left
	}
}

// Models returns the list of models, by default that of the program.
func (b *Backend) Models() ([]json.RawMessage, error) {
	list, err := b.list()
	return list.Models, err
}

func (b *Backend) list() (modelList, error) {
	b.mu.Lock()
	models := b.models
	b.mu.Unlock()
	if models != nil {
		return modelList{Models: models}, nil
	}
	return printed(b.opts.Codex)
}

// SetModels replaces the list.
func (b *Backend) SetModels(models []json.RawMessage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.models = models
}

// AddModel adds a model: a listed one by another name and with changes, such as use_responses_lite.
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
