package gateway

import (
	"context"
	"crypto/rand"
	"net/http"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/completions"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/sse"
)

// Completions serves POST /v1/completions.
func (g *Gateway) Completions(w http.ResponseWriter, r *http.Request) {
	g.serve(w, r, completionsCodec{})
}

// completionsCodec is the codec of legacy completions.
type completionsCodec struct{}

func (completionsCodec) route() Route { return RouteCompletions }

func (completionsCodec) decode(body []byte) (decodedRequest, *apierror.Error) {
	decoded, apiErr := completions.Decode(body)
	if apiErr != nil {
		return nil, apiErr
	}
	return completionsRequest{decoded}, nil
}

// completionsRequest is a decoded request for a legacy completion.
type completionsRequest struct{ *completions.Request }

// resolve does nothing: the request has its whole conversation.
func (completionsRequest) resolve(context.Context, *exchange) *apierror.Error { return nil }

// form returns the form of the completion. It has no place for calls: blocks are text.
func (q completionsRequest) form(_ *exchange, plan *prompt.Plan, options *turn.Options) form {
	options.OutputMode, options.TextualTools = turn.ModeJSON, turn.TextualOff
	return completionsForm{completions.Meta{
		ID:           "cmpl-" + rand.Text(),
		Model:        plan.Model,
		Created:      time.Now().Unix(),
		IncludeUsage: plan.IncludeUsage,
		Choices:      plan.Choices,
		Echo:         q.Echo(),
	}}
}

// completionsForm is the form of a legacy completion.
type completionsForm struct{ meta completions.Meta }

func (f completionsForm) stream(w *sse.Writer) streamEncoder {
	return &completionsStream{completions.NewStream(f.meta, w.WriteData), w}
}

func (f completionsForm) body() bodyEncoder { return completions.NewBody(f.meta) }

func (f completionsForm) apiError(failure error) *apierror.Error {
	return apierror.WithConversation(failure, "prompt")
}

// track does nothing: no other request can ask for a completion.
func (f completionsForm) track(ctx context.Context) (context.Context, func()) { return ctx, func() {} }

// forget reports whether the memory of the prompt is free.
func (f completionsForm) forget() bool { return f.meta.Echo == "" }

// completionsStream encodes an answer as chunks.
type completionsStream struct {
	*completions.Stream
	writer *sse.Writer
}

// Open writes nothing: the first chunk comes with the first output.
func (*completionsStream) Open() error { return nil }

// Holds is false: a chunk has only what is new.
func (*completionsStream) Holds() bool { return false }

// Close writes the end mark.
func (s *completionsStream) Close(turn.Report) error { return s.writer.WriteDone() }
