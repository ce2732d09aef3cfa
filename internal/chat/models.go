package chat

import "github.com/caddy-codex/caddy-codex/internal/wirejson"

// modelList is the JSON of a list of models (ListModelsResponse).
type modelList struct {
	Object string  `json:"object"`
	Data   []model `json:"data"`
}

// model is the JSON of one model (Model).
type model struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"` // always "codex": Codex does not say who owns a model
}

func newModel(id string, created int64) model { return model{id, "model", created, "codex"} }

// Models returns the body of GET /v1/models for the given names. created is used as the creation
// time of all models, in Unix seconds, since Codex does not say when a model was made.
func Models(names []string, created int64) []byte {
	all := modelList{Object: "list", Data: []model{}}
	for _, name := range names {
		all.Data = append(all.Data, newModel(name, created))
	}
	return wirejson.Append(nil, all)
}

// Model returns the body of GET /v1/models/{id}.
func Model(id string, created int64) []byte {
	return wirejson.Append(nil, newModel(id, created))
}
