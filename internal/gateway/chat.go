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

var chatCodec = codec{route: RouteChat, show: showOpenAILimit, decode: func(body []byte) (decodedRequest, *apierror.Error) {
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
func (q *chatRequest) form(_ *exchange, plan *prompt.Plan, options *turn.Options) form {
	id := rand.Text()
	options.IDSuffix = id[:idSuffixLength]
	return &chatForm{conversation: q.ConversationField(), meta: chat.Meta{
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
	meta         chat.Meta // without the fingerprint
	conversation string    // the field of the request with the conversation
	chunks       chunkStream
}

func (f *chatForm) stream(w *sse.Writer, at *conversation.Place) streamEncoder {
	f.chunks = chunkStream{chat.NewStream(f.started(at), w.WriteData), w}
	return &f.chunks
}

func (f *chatForm) body(at *conversation.Place) bodyEncoder { return chat.NewBody(f.started(at)) }

// started sets the fingerprint of the answer, and returns the meta. at is where the turn runs: its
// model and app-server determine the fingerprint.
func (f *chatForm) started(at *conversation.Place) chat.Meta {
	f.meta.Fingerprint = fingerprintOf(at)
	return f.meta
}

// fingerprintOf returns a fingerprint in the form of OpenAI's system_fingerprint. It changes with
// Codex's model and with the release of Codex.
func fingerprintOf(at *conversation.Place) string {
	model, version := at.Model, ""
	if at.Process != nil {
		version = at.Process.Status().Version
	}
	hash := sha256.Sum256([]byte(model + "\x00" + version))
	return "fp_" + hex.EncodeToString(hash[:5])
}

func (f *chatForm) apiError(failure error) *apierror.Error {
	return failures.WithConversation(failure, f.conversation)
}

func (f *chatForm) forget() bool { return true }

// Completions serves POST /v1/completions.
func (g *Gateway) Completions(w http.ResponseWriter, r *http.Request) {
	g.serve(w, r, completionsCodec)
}

var completionsCodec = codec{route: RouteCompletions, show: showOpenAILimit, decode: func(body []byte) (decodedRequest, *apierror.Error) {
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

// form returns the form of the completion. A completion has no field for tool calls, so calls that
// the model writes as blocks of text stay in the text.
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

func (f *completionsForm) stream(w *sse.Writer, _ *conversation.Place) streamEncoder {
	return &chunkStream{chat.NewCompletionStream(f.meta, w.WriteData), w}
}

func (f *completionsForm) body(*conversation.Place) bodyEncoder {
	return chat.NewCompletionBody(f.meta)
}

func (f *completionsForm) apiError(failure error) *apierror.Error {
	return failures.WithConversation(failure, "prompt")
}

// forget reports whether the memory of the prompt can be released. With echo it cannot, since the
// answer repeats the prompt.
func (f *completionsForm) forget() bool { return f.meta.Echo == "" }
