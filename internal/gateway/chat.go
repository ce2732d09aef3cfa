package gateway

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/chat"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/sse"
)

// Chat serves POST /v1/chat/completions.
func (g *Gateway) Chat(w http.ResponseWriter, r *http.Request) { g.serve(w, r, chatCodec{}) }

// chatCodec is the codec of chat completions.
type chatCodec struct{}

func (chatCodec) route() Route { return RouteChat }

func (chatCodec) decode(body []byte) (decodedRequest, *apierror.Error) {
	decoded, apiErr := chat.Decode(body)
	if apiErr != nil {
		return nil, apiErr
	}
	return chatRequest{decoded}, nil
}

// chatRequest is a decoded request for a chat completion.
type chatRequest struct{ *chat.Request }

// resolve does nothing: the request has its whole conversation.
func (chatRequest) resolve(context.Context, *exchange) *apierror.Error { return nil }

// idSuffixLength gives call ids 40 random bits: enough to tell the turns of a
// conversation apart.
const idSuffixLength = 8

// form returns the form of the completion.
func (q chatRequest) form(x *exchange, plan *prompt.Plan, options *turn.Options) form {
	id := rand.Text()
	options.IDSuffix = strings.ToLower(id[:idSuffixLength])
	return chatForm{x: x, conversation: q.ConversationField(), meta: chat.Meta{
		ID:              "chatcmpl-" + id,
		Model:           plan.Model,
		ServiceTier:     plan.ServiceTier,
		Created:         time.Now().Unix(),
		IncludeUsage:    plan.IncludeUsage,
		Choices:         plan.Choices,
		LegacyFunctions: plan.LegacyFunctions,
		Forms:           q.Forms(),
	}}
}

// chatForm is the form of a chat completion.
type chatForm struct {
	x            *exchange
	meta         chat.Meta // without the fingerprint
	conversation string    // the field of the request with the conversation
}

func (f chatForm) stream(w *sse.Writer) streamEncoder {
	return &chatStream{chat.NewStream(f.started(), w.WriteData), w}
}

func (f chatForm) body() bodyEncoder { return chat.NewBody(f.started()) }

// started returns the whole meta, once the turns have started.
func (f chatForm) started() chat.Meta {
	f.meta.Fingerprint = f.x.fingerprint()
	return f.meta
}

func (f chatForm) apiError(failure error) *apierror.Error {
	return apierror.WithConversation(failure, f.conversation)
}

// track does nothing: no other request can ask for a completion.
func (f chatForm) track(ctx context.Context) (context.Context, func()) { return ctx, func() {} }

func (f chatForm) forget() bool { return true }

// chatStream encodes an answer as chunks.
type chatStream struct {
	*chat.Stream
	writer *sse.Writer
}

// Open writes nothing: the first chunk of a choice comes with its first output.
func (*chatStream) Open() error { return nil }

// Holds is false: a chunk has only what is new.
func (*chatStream) Holds() bool { return false }

// Close writes the counts of the calls and the end mark.
func (s *chatStream) Close(tools turn.Report) error {
	if err := writeCounts(s.writer, tools); err != nil {
		return err
	}
	return s.writer.WriteDone()
}

// writeCounts writes the counts of the calls as a comment, which clients skip.
func writeCounts(w *sse.Writer, tools turn.Report) error {
	if tools.Calls == 0 {
		return nil
	}
	return w.WriteComment(fmt.Sprintf("tool_calls=%d truncated=%t", tools.Calls, tools.Truncated))
}
