package chat

import (
	"github.com/caddy-codex/caddy-codex/internal/api"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// modelList is the JSON of a list of models (ListModelsResponse).
type modelList struct {
	Object string  `json:"object"`
	Data   []model `json:"data"`
}

// model is the JSON of one model (Model), with two members that OpenAI does not have. Clients look for the
// context window under one of these names: that of OpenRouter, or that of vLLM.
type model struct {
	ID          string `json:"id"`
	Object      string `json:"object"`
	Created     int64  `json:"created"`  // the same for all models: Codex does not say when a model was made
	OwnedBy     string `json:"owned_by"` // always "codex": Codex does not say who owns a model
	Window      int    `json:"context_length,omitempty"`
	MaxModelLen int    `json:"max_model_len,omitempty"`
}

func newModel(m *api.Model) model {
	return model{m.Name, "model", m.Modified.Unix(), "codex", m.Window, m.Window}
}

// Models returns the body of GET /v1/models.
func Models(models api.Models) []byte {
	all := modelList{Object: "list", Data: []model{}}
	for _, name := range models.Names() {
		m, _ := models.Find(name)
		all.Data = append(all.Data, newModel(&m))
	}
	return wirejson.Append(nil, all)
}
