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
