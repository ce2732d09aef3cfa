package gateway

import (
	"crypto/rand"
	"net/http"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/api"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/chat"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// Chat serves POST /v1/chat/completions.
func (g *Gateway) Chat(w http.ResponseWriter, r *http.Request) { g.serve(w, r, chatCodec) }

var chatCodec = codec{route: RouteChat, setLimitHeaders: setOpenAILimitHeaders, decode: func(body []byte) (decodedRequest, *apierror.Error) {
	q := new(chatRequest)
	if apiErr := q.Decode(body); apiErr != nil {
		return nil, apiErr
	}
	return q, nil
}}

// chatRequest is a decoded request for a chat completion.
type chatRequest struct {
	chat.Request
	selfContained
}

// idSuffixLength is how many random characters end a call id. Each character has 5 random bits.
// Eight characters are enough to tell the turns of a conversation apart.
const idSuffixLength = 8

// newAnswer returns the answer to the request.
func (q *chatRequest) newAnswer(ex *exchange, plan *prompt.Plan, options *turn.Options) api.Answer {
	id := rand.Text()
	options.IDSuffix = id[:idSuffixLength]
	return chat.NewEncoder(chat.Meta{
		Settings:    plan.Settings,
		ID:          "chatcmpl-" + id,
		ServiceTier: plan.ServiceTier,
		Created:     time.Now().Unix(),
		Forms:       q.Forms,
		Place:       ex.prealloc.running.modelAndVersion,
		Field:       q.ConversationField(),
	})
}

// modelAndVersion returns Codex's name of the first choice's model, and the release of its Codex.
func (run *runningRequest) modelAndVersion() (model, version string) {
	place := run.place()
	if place.Process != nil {
		version = place.Process.Status().Version
	}
	return place.Model, version
}
