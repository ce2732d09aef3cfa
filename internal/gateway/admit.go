package gateway

import (
	"errors"
	"net/http"

	"github.com/caddy-codex/caddy-codex/internal/openai"
	"github.com/caddy-codex/caddy-codex/internal/queue"
)

// admit waits until the request may run its turns, all of them at once. leave
// is to be called when they are over. A server that is exiting admits nobody.
func (g *Gateway) admit(r *http.Request, turns int) (leave func(), refusal *openai.Error) {
	ctx, end := g.untilExit(r.Context())
	defer end()
	leave, err := g.queue.Acquire(ctx, g.opts.User(r), turns)
	switch {
	case errors.Is(err, queue.ErrFull):
		return nil, openai.QueueFull()
	case errors.Is(err, queue.ErrTimeout):
		return nil, openai.QueueTimeout(g.opts.QueueWait)
	case errors.Is(err, queue.ErrTooHeavy):
		return nil, openai.TooManyChoices(turns, g.opts.MaxConcurrent)
	case err != nil:
		return nil, openai.FromFailure(err)
	}
	return leave, nil
}
