package models

import (
	"slices"
	"strconv"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/jsontext"
)

// modelOwner is the owned_by of every model: Codex does not say whose it is.
const modelOwner = "codex"

// Alias is a name of the operator's for one of Codex's models.
type Alias struct {
	ID     string // as clients call it
	Model  string // as Codex calls it
	Effort string // of requests that ask for none; empty: the model's own
}

// List returns the body of GET /v1/models (ListModelsResponse): all models
// that are not hidden and all aliases, each in their order. A model with the id of
// an alias gives way to it. Codex does not say when a model was made; created, in
// Unix seconds, stands for all.
func List(models []codexrpc.Model, aliases []Alias, created int64) []byte {
	dst := []byte(`{"object":"list","data":[`)
	separator := ""
	for _, m := range models {
		if m.Hidden || isAlias(aliases, m.ID) {
			continue
		}
		dst = appendModel(append(dst, separator...), m.ID, created)
		separator = ","
	}
	for _, a := range aliases {
		dst = appendModel(append(dst, separator...), a.ID, created)
		separator = ","
	}
	return append(dst, `]}`...)
}

// Object returns the body of GET /v1/models/{id} (Model), also of an alias or
// of a hidden model; false if there is no such model.
func Object(models []codexrpc.Model, aliases []Alias, id string, created int64) ([]byte, bool) {
	known := isAlias(aliases, id) ||
		slices.ContainsFunc(models, func(m codexrpc.Model) bool { return m.ID == id })
	if !known {
		return nil, false
	}
	return appendModel(nil, id, created), true
}

func isAlias(aliases []Alias, id string) bool {
	return slices.ContainsFunc(aliases, func(a Alias) bool { return a.ID == id })
}

func appendModel(dst []byte, id string, created int64) []byte {
	dst = append(dst, `{"id":`...)
	dst = jsontext.AppendString(dst, id)
	dst = append(dst, `,"object":"model","created":`...)
	dst = strconv.AppendInt(dst, created, 10)
	dst = append(dst, `,"owned_by":"`...)
	dst = append(dst, modelOwner...)
	return append(dst, `"}`...)
}
