package gateway

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/codexrpc/appserver"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
)

// catalogueKey is the setting of a thread that names the file with the models'
// properties.
const catalogueKey = "model_catalog_json"

// place is where a thread runs, and where its instructions go.
type place struct {
	process      *appserver.Process
	conn         *codexrpc.Conn
	model        string // Codex's name of it
	instructions prompt.Placement
}

// placeOn returns the place of a thread of a plan on a process. A plan without a model is
// for the app-server's own.
func (g *Gateway) placeOn(ctx context.Context, process *appserver.Process, conn *codexrpc.Conn, plan *prompt.Plan) (place, error) {
	model := plan.Thread.Model
	if model == "" {
		var err error
		if model, err = conn.DefaultModel(ctx); err != nil {
			return place{}, err
		}
	}
	return place{process: process, conn: conn, model: model, instructions: g.placement(conn, process, model, plan)}, nil
}

// startThread starts the thread of a plan in the process's directory, with a
// catalogue of models if there is one for the model. Codex reads the catalogue for
// each thread; a file that is gone or broken must not fail the turn.
func (g *Gateway) startThread(ctx context.Context, at place, plan *prompt.Plan) (*codexrpc.Thread, error) {
	params, _ := plan.Placed(at.instructions)
	params.Model, params.Cwd = at.model, at.process.Dir()
	catalogue := catalogueFor(ctx, at, plan)
	if catalogue == "" {
		return at.conn.StartThread(ctx, params)
	}
	params.Config = maps.Clone(plan.Thread.Config) // other choices share the plan
	params.Config[catalogueKey] = catalogue
	thread, err := at.conn.StartThread(ctx, params)
	refused, ok := errors.AsType[*codexrpc.CallError](err)
	if !ok || !strings.Contains(refused.Message, "failed to load configuration") {
		return thread, err
	}
	g.opts.Logger.Warn("codex does not take its catalogue of models; the model may be offered tools of codex's own, and long conversations refused", "error", err)
	params.Config = plan.Thread.Config
	return at.conn.StartThread(ctx, params)
}

// longHistory is the size in bytes above which a history may be too long for a model
// that Codex does not know. Codex's own limit for such a model is 979,200 bytes.
const longHistory = 256 << 10

// catalogueFor returns the path of the file with the properties of a plan's model, or
// an empty one. Codex may have learnt of a model that is in no catalogue from the
// provider, whose properties then must stay; so the fallback is for long histories
// and for service tiers only. It is not for appended instructions, since Codex's own prompt for such a model
// is not known here.
func catalogueFor(ctx context.Context, at place, plan *prompt.Plan) string {
	model := at.model
	path := at.process.Catalogue(model)
	needed := plan.HistorySize() >= longHistory || plan.Thread.ServiceTier != ""
	if path != "" || !needed || at.instructions.Append {
		return path
	}
	models, err := at.conn.Models(ctx)
	name := model[strings.LastIndexByte(model, '/')+1:] // without the provider's
	if err != nil || slices.ContainsFunc(models, func(m codexrpc.Model) bool {
		return strings.HasPrefix(model, m.Model) || strings.HasPrefix(name, m.Model)
	}) {
		return "" // if the process fails, so will the thread's start
	}
	return at.process.FallbackCatalogue()
}
