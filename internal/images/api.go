package images

import (
	"cmp"
	"net/http"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/api"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// API is OpenAI's API for pictures.
var API = api.API{
	Name:   "images",
	Option: "images",
	Images: "image",
	Routes: []api.Route{
		{Path: "/v1/images/generations", Methods: api.Post, Turn: decoder(func(_ string, body []byte) (*Request, *apierror.Error) {
			return DecodeGeneration(body)
		})},
		{Path: "/v1/images/edits", Methods: api.Post, Turn: decoder(DecodeEdit)},
	},
}

// decoder returns a Turn that decodes the body with decode, and chooses the driving model.
func decoder(decode func(media string, body []byte) (*Request, *apierror.Error)) api.Turn {
	return func(server api.Server, r *http.Request, body []byte) (api.Request, *apierror.Error) {
		decoded, apiErr := decode(r.Header.Get("Content-Type"), body)
		if apiErr != nil {
			return nil, apiErr
		}
		if !server.HasAlias(decoded.Model) {
			decoded.Model = drivingModel(decoded.Model)
		}
		return decoded, nil
	}
}

// drivingModel returns the model that is to call the tool for pictures: the client's model, but the default
// model if the client names none, or a model that makes pictures itself, such as gpt-image-1.
func drivingModel(model string) string {
	for _, prefix := range []string{"gpt-image", "chatgpt-image", "dall-e"} {
		if strings.HasPrefix(model, prefix) {
			return prompt.DefaultModel
		}
	}
	return cmp.Or(model, prompt.DefaultModel)
}

// Answer implements [api.Request]. Its options switch off reasoning and calls in the text: the answer has
// only pictures.
func (r *Request) Answer(start api.Start, options *turn.Options) api.Answer {
	options.NoReasoning = true
	options.OutputMode, options.TextualTools = turn.ModeJSON, turn.TextualOff
	return NewEncoder(Meta{Created: start.Arrived.Unix(), Pictures: r.Choices(), isEdit: r.isEdit})
}
