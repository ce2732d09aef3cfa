package ollama

import (
	"crypto/rand"
	"net/http"

	"github.com/caddy-codex/caddy-codex/internal/api"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// API is Ollama's API.
var API = api.API{
	Name:   "ollama",
	Option: "ollama",
	Images: apierror.ParamMessages,
	Errors: &api.Errors{Encode: EncodeError},
	Routes: []api.Route{
		{Path: "/", Methods: api.Get, Public: true, Quiet: true, Static: new("Ollama is running")},
		{Path: "/api/version", Methods: api.Get, Public: true, Plain: api.Document([]byte(`{"version":"` + Version + `"}`))},
		{Path: "/api/tags", Methods: api.Get, Plain: tags},
		{Path: "/api/ps", Methods: api.Get, Plain: api.Document([]byte(`{"models":[]}`))}, // Codex loads no models

		{Path: "/api/chat", Methods: api.Post, Turn: api.Decoder(DecodeChat)},
		{Path: "/api/generate", Methods: api.Post, Turn: api.Decoder(DecodeGenerate)},
		{Path: "/api/show", Methods: api.Post, Plain: aboutModel(Show)},
		// A pull downloads nothing: it reports success for a model that exists.
		{Path: "/api/pull", Methods: api.Post, Plain: aboutModel(func(*api.Model) []byte { return []byte(`{"status":"success"}`) })},

		{Path: "/api/embed", Methods: api.Post, NoBody: true, Plain: noEmbeddings},
		{Path: "/api/embeddings", Methods: api.Post, NoBody: true, Plain: noEmbeddings},
		{Path: "/api/create", Methods: api.Post, NoBody: true, Plain: unchangeable},
		{Path: "/api/copy", Methods: api.Post, NoBody: true, Plain: unchangeable},
		{Path: "/api/push", Methods: api.Post, NoBody: true, Plain: unchangeable},
		{Path: "/api/delete", Methods: []string{http.MethodDelete}, NoBody: true, Plain: unchangeable},
		{Path: "/api/blobs/*", Methods: []string{http.MethodPost, http.MethodHead}, NoBody: true, Plain: unchangeable},
	},
}

// Answer implements [api.Request].
func (r *Request) Answer(start api.Start, options *turn.Options) api.Answer {
	options.IDSuffix = rand.Text()[:api.SuffixLength]
	meta := r.Meta(start.Arrived)
	meta.CallsInText = options.OutputMode == turn.ModeXML
	return NewEncoder(meta)
}

// aboutModel returns a Plain that answers with body for the named model; if there is none, with a 404.
func aboutModel(body func(*api.Model) []byte) api.Plain {
	return func(c api.Call) ([]byte, *apierror.Error) {
		var id string
		apiErr := c.Read(func(body []byte) (apiErr *apierror.Error) {
			id, apiErr = DecodeName(body)
			return apiErr
		})
		if apiErr != nil {
			return nil, apiErr
		}
		models, apiErr := c.Models()
		if apiErr != nil {
			return nil, apiErr
		}
		m, ok := models.Find(id)
		if !ok {
			return nil, apierror.ModelNotFound(id).WithModels(models.Names())
		}
		return body(&m), nil
	}
}

// EncodeError encodes an error for Ollama's clients, which read only the message.
func EncodeError(e *apierror.Error, _ http.Header) (status int, body []byte) {
	return e.Status, errorJSON(e)
}

func errorJSON(e *apierror.Error) []byte {
	return append(wirejson.AppendString([]byte(`{"error":`), e.Message), '}')
}

// unreadableClass is the class of calls whose arguments a client of this API cannot read.
var unreadableClass = apierror.NewClass("invalid_tool_arguments", http.StatusBadGateway, 0)

// The answers to requests for what this server does not do.
var (
	noEmbeddings = api.Refusal(apierror.NewClass(apierror.CodeUnsupportedParameter, http.StatusNotImplemented, apierror.Never),
		"this model does not support embeddings")
	unchangeable = api.Refusal(apierror.NewClass("models_unchangeable", http.StatusForbidden, 0),
		"the models of this server cannot be changed")
)
