package gateway

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/chat"
	"github.com/caddy-codex/caddy-codex/internal/conversation"
	"github.com/caddy-codex/caddy-codex/internal/failures"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/sse"
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
func (q *chatRequest) newAnswer(_ *exchange, plan *prompt.Plan, options *turn.Options) answer {
	id := rand.Text()
	options.IDSuffix = id[:idSuffixLength]
	return &chatAnswer{conversation: q.ConversationField(), meta: chat.Meta{
		Settings:    plan.Settings,
		ID:          "chatcmpl-" + id,
		ServiceTier: plan.ServiceTier,
		Created:     time.Now().Unix(),
		Forms:       q.Forms,
	}}
}

// chatAnswer is a chat completion.
type chatAnswer struct {
	selfContained
	meta         chat.Meta // its Fingerprint is empty until withFingerprint sets it
	conversation string    // the name of the request field with the conversation
	chunks       chunkStream
}

func (a *chatAnswer) stream(w *sse.Writer, place *conversation.Place) streamEncoder {
	e := chat.NewEncoder(a.withFingerprint(place))
	e.Begin(w.WriteEvent)
	a.chunks = chunkStream{e, w}
	return &a.chunks
}

func (a *chatAnswer) body(place *conversation.Place) bodyEncoder {
	return collect(chat.NewEncoder(a.withFingerprint(place)))
}

// withFingerprint sets the fingerprint of the answer and returns meta. place is where the turn
// runs: its model and app-server determine the fingerprint.
func (a *chatAnswer) withFingerprint(place *conversation.Place) chat.Meta {
	a.meta.Fingerprint = fingerprintOf(place)
	return a.meta
}

// fingerprintOf returns a fingerprint that looks like OpenAI's system_fingerprint. It depends on
// Codex's model and the release of Codex.
func fingerprintOf(place *conversation.Place) string {
	model, version := place.Model, ""
	if place.Process != nil {
		version = place.Process.Status().Version
	}
	hash := sha256.Sum256([]byte(model + "\x00" + version))
	return "fp_" + hex.EncodeToString(hash[:5])
}

func (a *chatAnswer) apiError(failure error) *apierror.Error {
	return failures.WithConversation(failure, a.conversation)
}
