package gateway

import (
	"context"
	"errors"
	"net/http"

	"github.com/caddy-codex/caddy-codex/internal/openai"
)

// decoded is a decoded request of either wire.
type decoded interface {
	pictured
	conversation
	Plan(openai.PlanOptions) (*openai.Plan, *openai.Error)
}

// plan maps a decoded request, for which so much memory is claimed, to what its
// turns need.
func (g *Gateway) plan(ctx context.Context, r *http.Request, req *request, from decoded, claimed int64) (refusal *openai.Error) {
	if refusal = g.fetchImages(ctx, from); refusal != nil {
		return refusal
	}
	var err error
	req.copied, err = g.bodies.copies(ctx, claimed)
	switch {
	case errors.Is(err, errCopyWait):
		return openai.BodyMemory()
	case err != nil:
		return openai.FromFailure(err)
	}
	req.plan, refusal = from.Plan(openai.PlanOptions{NoReasoning: g.opts.NoReasoning, Resolve: g.resolve})
	if refusal != nil {
		return refusal
	}
	req.options, refusal = g.opts.turnOptions(r, from, req.plan)
	return refusal
}
