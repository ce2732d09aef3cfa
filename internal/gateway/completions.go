package gateway

import (
	"crypto/rand"
	"net/http"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/chat"
	"github.com/caddy-codex/caddy-codex/internal/failures"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/sse"
)

// Completions serves POST /v1/completions.
func (g *Gateway) Completions(w http.ResponseWriter, r *http.Request) {
	g.serve(w, r, completionsCodec)
}

var completionsCodec = codec{route: RouteCompletions, decode: func(body []byte) (decodedRequest, *apierror.Error) {
	decoded, apiErr := chat.DecodeCompletion(body)
	if apiErr != nil {
		return nil, apiErr
	}
	return &completionsRequest{CompletionRequest: decoded}, nil
}}

// completionsRequest is a decoded request for a legacy completion.
type completionsRequest struct {
	*chat.CompletionRequest
	whole
}

// form returns the form of the completion. It has no place for calls: blocks are text.
func (q *completionsRequest) form(_ *exchange, plan *prompt.Plan, options *turn.Options) form {
	options.OutputMode, options.TextualTools = turn.ModeJSON, turn.TextualOff
	return &completionsForm{meta: chat.CompletionMeta{
		Settings: plan.Settings,
		ID:       "cmpl-" + rand.Text(),
		Created:  time.Now().Unix(),
		Echo:     q.Echo(),
	}}
}

// completionsForm is the form of a legacy completion.
type completionsForm struct {
	whole
	meta chat.CompletionMeta
}

func (f *completionsForm) stream(w *sse.Writer) streamEncoder {
	return &chunkStream{chat.NewCompletionStream(f.meta, w.WriteData), w}
}

func (f *completionsForm) body() bodyEncoder { return chat.NewCompletionBody(f.meta) }

func (f *completionsForm) apiError(failure error) *apierror.Error {
	return failures.WithConversation(failure, "prompt")
}

// forget reports whether the memory of the prompt is free.
func (f *completionsForm) forget() bool { return f.meta.Echo == "" }
