package chat

import (
	"github.com/caddy-codex/caddy-codex/internal/api"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

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

// Models returns the body of GET /v1/models (ListModelsResponse).
func Models(models api.Models) []byte {
	all := []model{}
	for _, name := range models.Names() {
		m, _ := models.Find(name)
		all = append(all, newModel(&m))
	}
	return append(wirejson.Append([]byte(`{"object":"list","data":`), all), '}')
}
