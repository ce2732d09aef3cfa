package gateway

import (
	"net/http"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/responses"
)

// InputTokens serves POST /v1/responses/input_tokens. Counting takes a place of a turn,
// since it may take as much time.
func (g *Gateway) InputTokens(w http.ResponseWriter, r *http.Request) {
	x := g.newExchange(w, r)
	defer x.close()
	body, apiErr := g.countInput(x)
	x.closeGrants()
	g.answer(w, r, body, apiErr)
}

// countInput counts the tokens of a request for a response.
func (g *Gateway) countInput(x *exchange) ([]byte, *apierror.Error) {
	ctx, end := g.untilExit(x.r.Context())
	defer end()
	decoded, apiErr := g.receiveDecoded(ctx, x, responsesCodec{g})
	if apiErr != nil {
		return nil, apiErr
	}
	if apiErr := decoded.resolve(ctx, x); apiErr != nil {
		return nil, apiErr
	}
	return responses.InputTokens(decoded.(*responsesRequest).CountTokens()), nil
}

// Compact answers POST /v1/responses/compact.
func (g *Gateway) Compact(w http.ResponseWriter, r *http.Request) {
	g.answer(w, r, nil, apierror.NoCompaction())
}
