package gateway

import (
	"crypto/rand"
	"net/http"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/api"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/appserver"
	"github.com/caddy-codex/caddy-codex/internal/ollama"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// OllamaChat serves POST /api/chat of Ollama's API.
func (g *Gateway) OllamaChat(w http.ResponseWriter, r *http.Request) {
	g.serve(w, r, g.ollamaCodec(ollama.DecodeChat))
}

// OllamaGenerate serves POST /api/generate of Ollama's API.
func (g *Gateway) OllamaGenerate(w http.ResponseWriter, r *http.Request) {
	g.serve(w, r, g.ollamaCodec(ollama.DecodeGenerate))
}

func (g *Gateway) ollamaCodec(decode func([]byte) (*ollama.Request, *apierror.Error)) codec {
	return codec{route: RouteOllama, setLimitHeaders: setOpenAILimitHeaders, decode: func(body []byte) (decodedRequest, *apierror.Error) {
		decoded, apiErr := decode(body)
		if apiErr != nil {
			return nil, apiErr
		}
		return &ollamaRequest{Request: decoded, g: g}, nil
	}}
}

// ollamaRequest is a decoded request of Ollama's API.
type ollamaRequest struct {
	*ollama.Request
	selfContained
	g *Gateway
}

// Plan maps the request to Codex. The field think can ask for the least or the most effort that the
// model accepts.
func (q *ollamaRequest) Plan(opts prompt.Options) (*prompt.Plan, *apierror.Error) {
	codexModel, _, _ := q.g.resolveModel(q.ModelID())
	known := q.g.catalogModel(codexModel)
	return q.Request.Plan(opts, known.Least, known.Most)
}

// newAnswer returns the answer to the request.
func (q *ollamaRequest) newAnswer(ex *exchange, _ *prompt.Plan, options *turn.Options) api.Answer {
	options.IDSuffix = rand.Text()[:idSuffixLength]
	meta := q.Meta(ex.arrived)
	meta.CallsInText = options.OutputMode == turn.ModeXML
	return ollama.NewEncoder(meta)
}

// OllamaTags serves GET /api/tags.
func (g *Gateway) OllamaTags(w http.ResponseWriter, r *http.Request) {
	g.serveTurnless(w, r, func(*turnlessRequest) ([]byte, *apierror.Error) {
		offer, apiErr := g.models(r)
		if apiErr != nil {
			return nil, apiErr
		}
		var all []ollama.Model
		for _, name := range g.modelNames(offer) {
			all = append(all, g.ollamaModel(name, offer))
		}
		return ollama.Tags(all), nil
	})
}

// OllamaShow serves POST /api/show.
func (g *Gateway) OllamaShow(w http.ResponseWriter, r *http.Request) {
	g.serveModel(w, r, func(m ollama.Model) []byte { return ollama.Show(&m) })
}

// OllamaPull serves POST /api/pull. It downloads nothing: it reports success for a model that
// exists, and a 404 for any other.
func (g *Gateway) OllamaPull(w http.ResponseWriter, r *http.Request) {
	g.serveModel(w, r, func(ollama.Model) []byte { return ollama.Pulled })
}

// serveModel serves a request about a model. The answer is a 404 if there is no such model.
func (g *Gateway) serveModel(w http.ResponseWriter, r *http.Request, answer func(ollama.Model) []byte) {
	g.serveTurnless(w, r, func(*turnlessRequest) ([]byte, *apierror.Error) {
		ex := g.newExchange(w, r)
		defer ex.close()
		body, _, apiErr := g.readBody(ex)
		if apiErr != nil {
			return nil, ex.preferExitError(apiErr)
		}
		var id string
		if g.compute(ex, int64(len(body)), func() { id, apiErr = ollama.DecodeName(body) }); apiErr != nil {
			return nil, apiErr
		}
		offer, apiErr := g.models(r)
		if apiErr != nil {
			return nil, ex.preferExitError(apiErr)
		}
		name := g.withoutTag(id)
		if !prompt.KnownModel(offer.models, g.opts.Aliases, name) || !g.allows(offer.key, id) {
			return nil, apierror.ModelNotFound(id).WithModels(g.modelNames(offer))
		}
		return answer(g.ollamaModel(name, offer)), nil
	})
}

// ollamaModel describes the model that clients know by the given name.
func (g *Gateway) ollamaModel(name string, offer *offer) ollama.Model {
	codexModel, _, _ := g.resolveModel(name)
	if codexModel == "" {
		codexModel = offer.defaultModel
	}
	known := offer.instance.Model(codexModel)
	m := ollama.Model{Name: name, Window: known.Window, Blind: known.Blind, Modified: time.Unix(offer.created, 0)}
	if prompt.FindAlias(g.opts.Aliases, name) == nil && name != prompt.DefaultModel {
		m.Title = known.Title
	}
	return m
}

// OllamaDocument returns the handler of a route of Ollama's API. The handler answers each request
// with the error from apiErr, or with body if apiErr is nil.
func OllamaDocument(body []byte, apiErr func() *apierror.Error) func(*Gateway, http.ResponseWriter, *http.Request) {
	return func(g *Gateway, w http.ResponseWriter, r *http.Request) {
		g.serveTurnless(w, r, func(*turnlessRequest) ([]byte, *apierror.Error) {
			if apiErr != nil {
				return nil, apiErr()
			}
			return body, nil
		})
	}
}

// OllamaReady serves GET /, with which clients check that the server runs.
func (g *Gateway) OllamaReady(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write(ollama.Ready) // a client that has gone needs no answer
}

// withoutTag returns a client's name of a model without the tag that Ollama's clients append. If a
// model is known by the name with the tag, or if the option ollama is off, withoutTag returns the
// name unchanged.
func (g *Gateway) withoutTag(model string) string {
	untagged, tagged := ollama.Bare(model)
	if !tagged || !g.opts.Ollama || g.catalogModel(model).Slug == model {
		return model
	}
	if alias := prompt.FindAlias(g.opts.Aliases, model); alias != nil && alias.ID == model {
		return model
	}
	return untagged
}

// catalogModel returns what Codex's catalogue says about a model. It returns a zero Model if no
// app-server can be asked.
func (g *Gateway) catalogModel(codexModel string) (known appserver.Model) {
	lease, err := g.upstream.Lease()
	if err != nil {
		return known
	}
	defer lease.Release()
	picked, done := lease.Peek()
	defer done()
	return picked.Process.Model(codexModel)
}
