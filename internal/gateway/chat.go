package gateway

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/chat"
	"github.com/caddy-codex/caddy-codex/internal/failures"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/sse"
)

// Chat serves POST /v1/chat/completions.
func (g *Gateway) Chat(w http.ResponseWriter, r *http.Request) { g.serve(w, r, chatCodec) }

var chatCodec = codec{route: RouteChat, decode: func(body []byte) (decodedRequest, *apierror.Error) {
	q := new(chatRequest)
	if apiErr := q.Decode(body); apiErr != nil {
		return nil, apiErr
	}
	return q, nil
}}

// chatRequest is a decoded request for a chat completion.
type chatRequest struct {
	chat.Request
	whole
}

// idSuffixLength gives call ids 40 random bits: enough to tell the turns of a
// conversation apart.
const idSuffixLength = 8

// form returns the form of the completion.
func (q *chatRequest) form(x *exchange, plan *prompt.Plan, options *turn.Options) form {
	id := rand.Text()
	options.IDSuffix = id[:idSuffixLength]
	return &chatForm{x: x, conversation: q.ConversationField(), meta: chat.Meta{
		Settings:    plan.Settings,
		ID:          "chatcmpl-" + id,
		ServiceTier: plan.ServiceTier,
		Created:     time.Now().Unix(),
		Forms:       q.Forms,
	}}
}

// chatForm is the form of a chat completion.
type chatForm struct {
	whole
	x            *exchange
	meta         chat.Meta // without the fingerprint
	conversation string    // the field of the request with the conversation
	chunks       chunkStream
}

func (f *chatForm) stream(w *sse.Writer) streamEncoder {
	f.chunks = chunkStream{chat.NewStream(f.started(), w.WriteData), w}
	return &f.chunks
}

func (f *chatForm) body() bodyEncoder { return chat.NewBody(f.started()) }

// started returns the whole meta, once the turns have started.
func (f *chatForm) started() chat.Meta {
	f.meta.Fingerprint = f.x.fingerprint()
	return f.meta
}

// fingerprint identifies what answers a request, in the form of OpenAI's
// system_fingerprint: it changes with Codex's model and with the release of Codex.
func (x *exchange) fingerprint() string {
	model, version := "", ""
	if len(x.choices) > 0 && x.choices[0].session.Place().Process != nil {
		at := x.choices[0].session.Place()
		model, version = at.Model, at.Process.Status().Version
	}
	hash := sha256.Sum256([]byte(model + "\x00" + version))
	return "fp_" + hex.EncodeToString(hash[:5])
}

func (f *chatForm) apiError(failure error) *apierror.Error {
	return failures.WithConversation(failure, f.conversation)
}

func (f *chatForm) forget() bool { return true }
