package chat

import (
	"crypto/rand"
	"net/http"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/api"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// API is OpenAI's API of chat completions.
var API = api.API{
	Name:   "chat",
	Images: apierror.ParamMessages,
	Routes: []api.Route{{Path: "/v1/chat/completions", Methods: api.Post, Turn: api.Decoder(Decode)}},
	Models: func(m api.Models, _ *http.Request) ([]byte, *apierror.Error) {
		return Models(m), nil
	},
	Model: func(m api.Models, id string) ([]byte, bool) {
		found, ok := m.Find(id)
		found.Name = id
		return wirejson.Append(nil, newModel(&found)), ok
	},
}

// Answer implements [api.Request].
func (r *Request) Answer(start api.Start, options *turn.Options) api.Answer {
	id := rand.Text()
	options.IDSuffix = id[:api.SuffixLength]
	return NewEncoder(Meta{
		Settings:    start.Plan.Settings,
		ID:          "chatcmpl-" + id,
		ServiceTier: start.Plan.ServiceTier,
		Created:     time.Now().Unix(),
		Forms:       r.Forms,
		Place:       start.Place,
		Field:       r.ConversationField(),
	})
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

// Models returns the body of GET /v1/models (ListModelsResponse).
func Models(models api.Models) []byte {
	all := []model{}
	for _, name := range models.Names() {
		m, _ := models.Find(name)
		all = append(all, newModel(&m))
	}
	return append(wirejson.Append([]byte(`{"object":"list","data":`), all), '}')
}
