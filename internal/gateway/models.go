package gateway

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/api"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/appserver"
	"github.com/caddy-codex/caddy-codex/internal/conversation"
	"github.com/caddy-codex/caddy-codex/internal/failures"
	"github.com/caddy-codex/caddy-codex/internal/messages"
	"github.com/caddy-codex/caddy-codex/internal/ollama"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/quota"
)

// Models serves GET /v1/models, in the form of the client's API.
func (g *Gateway) Models(w http.ResponseWriter, r *http.Request) {
	g.serveTurnless(w, r, nil, func(c *plainCall) ([]byte, *apierror.Error) {
		models, apiErr := c.Models()
		if apiErr != nil {
			return nil, apiErr
		}
		return ClientAPI(r).Models(models, r)
	})
}

// Model serves GET /v1/models/{id}, in the form of the client's API.
func (g *Gateway) Model(w http.ResponseWriter, r *http.Request, id string) {
	g.serveTurnless(w, r, nil, func(c *plainCall) ([]byte, *apierror.Error) {
		models, apiErr := c.Models()
		if apiErr != nil {
			return nil, apiErr
		}
		body, ok := ClientAPI(r).Model(models, id)
		if !ok {
			return nil, apierror.ModelNotFound(id).WithModels(models.Names())
		}
		return body, nil
	})
}

func (g *Gateway) alias(model string) *prompt.Alias { return prompt.FindAlias(g.opts.Aliases, model) }

// resolveModel returns Codex's name of the model that the client calls model. If model is an alias,
// resolveModel also returns the alias's effort, and whether this effort replaces the client's. For
// [prompt.DefaultModel], codexModel is empty.
func (g *Gateway) resolveModel(model string) (codexModel, effort string, forced bool) {
	model = g.bareName(model)
	codexModel = model
	if alias := g.alias(model); alias != nil {
		codexModel, effort, forced = alias.Model, alias.Effort, alias.ForceEffort
	}
	if codexModel == prompt.DefaultModel {
		codexModel = ""
	}
	return codexModel, effort, forced
}

// nameModels returns the error apiErr. If its reason is that the provider does not have the requested
// model, nameModels adds the names of the other models that the request's key allows.
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

// allows reports whether a key, which may be nil, allows the model with this name, as the client wrote it.
func (g *Gateway) allows(key *quota.Key, model string) bool {
	return key.Allows(model) || key.Allows(g.bareName(model))
}

// bareName removes what some clients add to a model's name: [messages.ModelPrefix], or the tag :latest, if the
// option ollama is on. It keeps the name of a model or an alias, and with the prefix also what a pattern matches
// that is not `*`.
func (g *Gateway) bareName(model string) string {
	bare, prefixed := strings.CutPrefix(model, messages.ModelPrefix)
	if !prefixed {
		bare, _ = ollama.Bare(model)
	}
	if bare == model || !prefixed && !g.opts.Ollama || g.catalogModel(model).Slug == model {
		return model
	}
	if alias := g.alias(model); alias != nil && (alias.ID == model || prefixed && alias.ID != "*") {
		return model
	}
	return bare
}

// catalogModel returns what Codex's catalogue says about a model. If that is not known, known is zero.
func (g *Gateway) catalogModel(codexModel string) (known appserver.Model) {
	lease, err := g.upstream.Lease()
	if err != nil {
		return known
	}
	defer lease.Release()
	picked, done := lease.Peek("")
	defer done()
	return picked.Process.Model(codexModel)
}

// offer has the models that an app-server offers to a request. It implements [api.Models].
type offer struct {
	c            *plainCall
	models       []codexrpc.Model
	defaultModel string              // the model that Codex uses if the request names no model; empty: not known
	created      time.Time           // the creation time that clients get for each model
	instance     *appserver.Instance // of the app-server
	key          *quota.Key          // of the request; nil: all models are allowed
}

// Names implements [api.Models].
func (o *offer) Names() []string {
	return prompt.ModelNames(o.models, o.c.g.opts.Aliases, o.key.Allows)
}

// Allows implements [api.Models].
func (o *offer) Allows(name string) bool { return o.c.g.allows(o.key, name) }

// Find implements [api.Models].
func (o *offer) Find(id string) (m api.Model, ok bool) {
	name := o.c.g.bareName(id)
	codexModel, _, _ := o.c.g.resolveModel(name)
	known := o.instance.Model(cmp.Or(codexModel, o.defaultModel))
	m = api.Model{Name: name, Blind: known.Blind, Modified: o.created}
	m.Window, _ = o.c.g.window(o.c.ex.ctx, codexModel)
	if !o.c.g.HasAlias(name) && name != prompt.DefaultModel {
		m.Title = known.Title
	}
	return m, prompt.KnownModel(o.models, o.c.g.opts.Aliases, name) && o.Allows(id)
}

// Models implements [api.Call]. It asks an app-server, which knows its models even when it is offline.
func (c *plainCall) Models() (_ api.Models, apiErr *apierror.Error) {
	defer func() { apiErr = c.ex.preferExitError(apiErr) }()
	g, r := c.g, c.ex.r
	key, apiErr := g.keyOf(r)
	if apiErr != nil {
		return nil, apiErr
	}
	lease, err := g.upstream.Lease()
	if err != nil {
		return nil, failures.APIError(err)
	}
	defer lease.Release()
	picked, done := lease.Peek("")
	defer done()
	in, err := conversation.Connect(r.Context(), picked.Process)
	if err != nil {
		return nil, failures.APIError(err)
	}
	all, err := in.Models(r.Context())
	if err != nil {
		return nil, failures.APIError(err)
	}
	defaultModel, _ := in.DefaultModel(r.Context())
	return &offer{c, all, defaultModel, time.Unix(picked.Process.Status().Since.Unix(), 0), in, key}, nil
}

// window returns the context window, in tokens, of one of Codex's models; of the default model if the name is
// empty. 0: not known. It is the smallest one of all app-servers. More tokens than most fit at none.
func (g *Gateway) window(ctx context.Context, codexModel string) (window, most int) {
	lease, err := g.upstream.Lease()
	if err != nil {
		return 0, math.MaxInt
	}
	defer lease.Release()
	for _, member := range lease.Members() {
		in, name := member.Process.Ready(), codexModel
		if in == nil {
			continue
		}
		if name == "" {
			name, _ = in.DefaultModel(ctx) // empty after an error: an unknown model
		}
		known := in.Model(name)
		window = min(cmp.Or(window, known.Window), cmp.Or(known.Window, window))
		if most = max(most, known.Window); known.Window == 0 || !in.Conn().HasPlan() {
			most = math.MaxInt // the catalogue has the windows of plans: by API key, more may fit
		}
	}
	if g.opts.Logger.Enabled(ctx, slog.LevelDebug) {
		g.opts.Logger.LogAttrs(ctx, slog.LevelDebug, "the model's window", slog.String("model", codexModel), slog.Int("tokens", window))
	}
	return window, cmp.Or(most, math.MaxInt)
}

// checkWindow refuses a conversation with more tokens than the model can read. It counts tokens only if the
// conversation is estimated to be too long. It leaves out images and what Codex adds: what may fit is passed on.
func (g *Gateway) checkWindow(ex *exchange, req *request, asked *prompt.Conversation) *apierror.Error {
	if g.mayShorten(asked) {
		return nil // Gateway.plan asks for the window
	}
	codexModel, _ := asked.ResolveModel(g.planOptions)
	window, most := g.window(ex.ctx, codexModel)
	// Most conversations fit even if each byte is a token: req.input has at least a token for four bytes.
	if req.input <= int64(most)/prompt.BytesPerToken || asked.EstimateTokens(prompt.SampleBytes) <= most {
		return nil
	}
	count, apiErr := g.countTokens(ex, req.body, asked.CountTokens)
	if apiErr != nil || count <= most {
		return apiErr
	}
	return apierror.WindowExceeded(count, window).WithConversation(req.api.Images)
}
