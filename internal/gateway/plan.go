package gateway

import (
	"context"
	"net/http"

	"github.com/caddy-codex/caddy-codex/internal/openai"
)

// decoded is a decoded request of either wire.
type decoded interface {
	pictured
	conversation
	Plan(openai.PlanOptions) (*openai.Plan, *openai.Error)
}

// plan maps a decoded request to what its turns need.
func (g *Gateway) plan(ctx context.Context, r *http.Request, req *request, from decoded) (refusal *openai.Error) {
	if refusal = g.fetchImages(ctx, from); refusal != nil {
		return refusal
	}
	req.plan, refusal = from.Plan(openai.PlanOptions{NoReasoning: g.opts.NoReasoning, Resolve: g.resolve})
	if refusal != nil {
		return refusal
	}
	if req.options, refusal = g.opts.Tools.turnOptions(r, from, req.plan); refusal != nil {
		return refusal
	}
	req.options.NoReasoning = g.opts.NoReasoning
	return nil
}
