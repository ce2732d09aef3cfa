package gateway

import (
	"context"
	"net/http"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/appserver"
	"github.com/caddy-codex/caddy-codex/internal/chat"
	"github.com/caddy-codex/caddy-codex/internal/conversation"
	"github.com/caddy-codex/caddy-codex/internal/failures"
	"github.com/caddy-codex/caddy-codex/internal/messages"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/quota"
)

// Models serves GET /v1/models, in the form of the client's API.
func (g *Gateway) Models(w http.ResponseWriter, r *http.Request) {
	g.serveTurnless(w, r, func(*turnlessRequest) ([]byte, *apierror.Error) {
		offer, apiErr := g.models(r)
		switch {
		case apiErr != nil:
			return nil, apiErr
		case messages.IsClient(r):
			return messages.Models(g.modelNames(offer), time.Unix(offer.created, 0), r.URL.Query())
		}
		return chat.Models(g.modelNames(offer), offer.created), nil
	})
}

// Model serves GET /v1/models/{id}, in the form of the client's API.
func (g *Gateway) Model(w http.ResponseWriter, r *http.Request, id string) {
	g.serveTurnless(w, r, func(*turnlessRequest) ([]byte, *apierror.Error) {
		offer, apiErr := g.models(r)
		if apiErr != nil {
			return nil, apiErr
		}
		body, ok := chat.Model(id, offer.created), prompt.KnownModel(offer.models, g.opts.Aliases, g.withoutTag(id))
		if messages.IsClient(r) {
			body, ok = messages.Model(id, time.Unix(offer.created, 0)), ok || messages.IsClaude(id)
		}
		if !ok || !g.allows(offer.key, id) {
			return nil, apierror.ModelNotFound(id).WithModels(g.modelNames(offer))
		}
		return body, nil
	})
}

// modelNames returns the names of the models that the key of a request allows.
func (g *Gateway) modelNames(o *offer) []string {
	return prompt.ModelNames(o.models, g.opts.Aliases, o.key.Allows)
}

// resolveModel returns Codex's name of a client's model. For an alias it also returns the effort,
// and whether the alias forces it. For [prompt.DefaultModel] the name is empty.
func (g *Gateway) resolveModel(model string) (codexModel, effort string, forced bool) {
	model = g.withoutTag(model)
	codexModel = model
	if alias := prompt.FindAlias(g.opts.Aliases, model); alias != nil {
		codexModel, effort, forced = alias.Model, alias.Effort, alias.ForceEffort
	}
	if codexModel == prompt.DefaultModel {
		codexModel = ""
	}
	return codexModel, effort, forced
}

// nameModels adds the names of the other models that the request's key allows, if the error is that
// the provider does not have the requested model. It returns any other error unchanged.
func (run *runningRequest) nameModels(ctx context.Context, c *choice, apiErr *apierror.Error) *apierror.Error {
	if apiErr == nil || apiErr.Code != apierror.CodeModelNotFound {
		return apiErr
	}
	ctx, cancel := context.WithTimeout(ctx, conversation.ExplainTimeout)
	defer cancel()
	all, err := c.turn.Place().Instance.Models(ctx)
	if err != nil {
		return apiErr // a list of only the aliases would mislead
	}
	return apiErr.WithModels(prompt.ModelNames(all, run.g.opts.Aliases, func(id string) bool {
		return id != run.req.plan.Model && run.req.key.Allows(id)
	}))
}

// allows reports whether a key allows a model. model is the client's name of the model; key may be
// nil.
func (g *Gateway) allows(key *quota.Key, model string) bool {
	return key.Allows(model) || key.Allows(g.withoutTag(model))
}

// offer has the models that an app-server offers to a request.
type offer struct {
	models       []codexrpc.Model
	defaultModel string // the model that is used if none is named; empty: not known
	created      int64  // the creation time that clients get for each model, in Unix seconds
	instance     *appserver.Instance
	key          *quota.Key // of the request
}

// models asks the app-server for its models. The app-server knows them offline, too.
func (g *Gateway) models(r *http.Request) (*offer, *apierror.Error) {
	key, apiErr := g.keyOf(r)
	if apiErr != nil {
		return nil, apiErr
	}
	lease, err := g.upstream.Lease()
	if err != nil {
		return nil, failures.APIError(err)
	}
	defer lease.Release()
	picked, done := lease.Peek()
	defer done()
	in, err := conversation.Connect(r.Context(), picked.Process)
	if err != nil {
		return nil, failures.APIError(err)
	}
	all, err := in.Models(r.Context())
	if err != nil {
		return nil, failures.APIError(err)
	}
	return &offer{all, appserver.DefaultOf(all), picked.Process.Status().Since.Unix(), in, key}, nil
}
