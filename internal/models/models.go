// Package models makes the lists of models that the API offers.
package models

import (
	"slices"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/jsontext"
)

// Alias is a name of the operator's for one of Codex's models.
type Alias struct {
	ID     string // as clients call it
	Model  string // as Codex calls it
	Effort string // of requests that ask for none; empty: the model's own
	// ForceEffort makes Effort that of all requests.
	ForceEffort bool
}

// list is a ListModelsResponse.
type list struct {
	Object string  `json:"object"`
	Data   []model `json:"data"`
}

// model is a Model.
type model struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"` // always codex, which does not say whose a model is
}

func newModel(id string, created int64) model { return model{id, "model", created, "codex"} }

// List returns the body of GET /v1/models: all models that are not hidden and all
// aliases, each in their order, if they are allowed. A model with the id of an alias is
// left out. Codex does not say when a model was made; created, in Unix seconds, stands
// for all.
func List(models []codexrpc.Model, aliases []Alias, created int64, allowed func(id string) bool) []byte {
	all := list{Object: "list", Data: []model{}}
	for _, m := range models {
		if !m.Hidden && !isAlias(aliases, m.ID) && allowed(m.ID) {
			all.Data = append(all.Data, newModel(m.ID, created))
		}
	}
	for _, a := range aliases {
		if allowed(a.ID) {
			all.Data = append(all.Data, newModel(a.ID, created))
		}
	}
	return jsontext.Append(nil, all)
}

// Object returns the body of GET /v1/models/{id}, also of an alias or of a hidden
// model. It reports false if there is no such model.
func Object(models []codexrpc.Model, aliases []Alias, id string, created int64) ([]byte, bool) {
	known := isAlias(aliases, id) ||
		slices.ContainsFunc(models, func(m codexrpc.Model) bool { return m.ID == id })
	if !known {
		return nil, false
	}
	return jsontext.Append(nil, newModel(id, created)), true
}

func isAlias(aliases []Alias, id string) bool {
	return slices.ContainsFunc(aliases, func(a Alias) bool { return a.ID == id })
}
