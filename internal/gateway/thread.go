package gateway

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/codexrpc/appserver"
	"github.com/caddy-codex/caddy-codex/internal/openai"
)

// catalogueKey names the file with the models' properties in a thread's
// configuration.
const catalogueKey = "model_catalog_json"

// place is where a thread runs, and where its instructions stand.
type place struct {
	process      *appserver.Process
	conn         *codexrpc.Conn
	model        string // Codex's name of it
	instructions openai.Placement
}

// startThread starts the thread of a plan in the process's directory, with a
// catalogue of models if there is one for the model. Codex reads that for each
// thread; one that is gone or broken by now must not fail the turn.
func (g *Gateway) startThread(ctx context.Context, at place, plan *openai.Plan) (*codexrpc.Thread, error) {
	params, _ := plan.Placed(at.instructions)
	params.Cwd = at.process.Dir()
	catalogue := catalogueFor(ctx, at, plan)
	if catalogue == "" {
		return at.conn.StartThread(ctx, params)
	}
	params.Config = maps.Clone(plan.Thread.Config) // other choices share the plan
	params.Config[catalogueKey] = catalogue
	thread, err := at.conn.StartThread(ctx, params)
	refusal := (*codexrpc.CallError)(nil)
	if !errors.As(err, &refusal) || !strings.Contains(refusal.Message, "failed to load configuration") {
		return thread, err
	}
	g.opts.Logger.Warn("codex does not take its catalogue of models; the model may be offered tools of codex's own, and long conversations refused", "error", err)
	params.Config = plan.Thread.Config
	return at.conn.StartThread(ctx, params)
}

// longHistory is a size of a history, in bytes, that Codex takes for short
// enough for every model. It would take one of 979,200 bytes for too long for a
// model that it does not know.
const longHistory = 256 << 10

// catalogueFor is the file with the properties of a plan's model, or empty. A
// model that no catalogue has can still be one that the provider has told Codex
// of, whose properties then must stay; so only a long history is worth a look.
// Codex's own prompt for such a model is not known here.
func catalogueFor(ctx context.Context, at place, plan *openai.Plan) string {
	model := plan.Thread.Model
	path := at.process.Catalogue(model)
	if path != "" || plan.HistorySize() < longHistory || at.instructions.Append {
		return path
	}
	models, err := at.conn.Models(ctx)
	name := model[strings.LastIndexByte(model, '/')+1:] // without the provider's
	if err != nil || slices.ContainsFunc(models, func(m codexrpc.Model) bool {
		return strings.HasPrefix(model, m.Model) || strings.HasPrefix(name, m.Model)
	}) {
		return "" // whatever fails here, the thread's start will tell
	}
	return at.process.FallbackCatalogue()
}
