package gateway

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/openai"
)

// catalogueKey names the file with the models' properties in a thread's
// configuration.
const catalogueKey = "model_catalog_json"

// startThread starts the thread of a plan in the process's directory, with a
// catalogue of models if there is one for the model. Codex reads that for each
// thread; one that is gone or broken by now must not fail the turn.
func (g *Gateway) startThread(ctx context.Context, conn *codexrpc.Conn, process *codexrpc.Process, plan *openai.Plan) (*codexrpc.Thread, error) {
	params := plan.Thread
	params.Cwd = process.Dir()
	catalogue := catalogueFor(ctx, conn, process, plan)
	if catalogue == "" {
		return conn.StartThread(ctx, params)
	}
	params.Config = maps.Clone(plan.Thread.Config) // other choices share the plan
	params.Config[catalogueKey] = catalogue
	thread, err := conn.StartThread(ctx, params)
	refusal := (*codexrpc.CallError)(nil)
	if !errors.As(err, &refusal) || !strings.Contains(refusal.Message, "failed to load configuration") {
		return thread, err
	}
	g.opts.Logger.Warn("codex does not take its catalogue of models; the model may be offered tools of codex's own, and long conversations refused", "error", err)
	params.Config = plan.Thread.Config
	return conn.StartThread(ctx, params)
}

// longHistory is a size of a history, in bytes, that Codex takes for short
// enough for every model. It would take one of 979,200 bytes for too long for a
// model that it does not know.
const longHistory = 256 << 10

// catalogueFor is the file with the properties of a plan's model, or empty. A
// model that no catalogue has can still be one that the provider has told Codex
// of, whose properties then must stay; so only a long history is worth a look.
func catalogueFor(ctx context.Context, conn *codexrpc.Conn, process *codexrpc.Process, plan *openai.Plan) string {
	model := plan.Thread.Model
	path := process.Catalogue(model)
	if path != "" || plan.HistorySize() < longHistory || process.FallbackCatalogue() == "" {
		return path
	}
	models, err := conn.Models(ctx)
	name := model[strings.LastIndexByte(model, '/')+1:] // without the provider's
	if err != nil || slices.ContainsFunc(models, func(m codexrpc.Model) bool {
		return strings.HasPrefix(model, m.Model) || strings.HasPrefix(name, m.Model)
	}) {
		return "" // whatever fails here, the thread's start will tell
	}
	return process.FallbackCatalogue()
}
