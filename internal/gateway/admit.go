package gateway

import (
	"errors"
	"net/http"

	"github.com/caddy-codex/caddy-codex/internal/openai"
	"github.com/caddy-codex/caddy-codex/internal/queue"
)

// admit waits until the request may run its turns, all of them at once. leave
// is to be called when they are over.
func (g *Gateway) admit(r *http.Request, turns int) (leave func(), refusal *openai.Error) {
	leave, err := g.queue.Acquire(r.Context(), g.opts.User(r), turns)
	switch {
	case errors.Is(err, queue.ErrFull):
		return nil, openai.QueueFull()
	case errors.Is(err, queue.ErrTimeout):
		return nil, openai.QueueTimeout(g.opts.QueueWait)
	case errors.Is(err, queue.ErrTooHeavy):
		return nil, openai.TooManyChoices(turns, g.queue.Heaviest())
	case err != nil:
		return nil, openai.FromFailure(err)
	}
	return leave, nil
}
