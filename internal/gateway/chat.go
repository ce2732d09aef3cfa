package gateway

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/budget"
	"github.com/caddy-codex/caddy-codex/internal/openai"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/sse"
)

// Chat serves POST /v1/chat/completions.
func (g *Gateway) Chat(w http.ResponseWriter, r *http.Request) { g.serve(w, r, g.readChat) }

// readChat reads and checks a chat request.
func (g *Gateway) readChat(w http.ResponseWriter, r *http.Request, memory *budget.Claim) (*request, *openai.Error) {
	body, refusal := g.readBody(w, r, memory)
	if refusal != nil {
		return nil, refusal
	}
	chat, refusal := openai.DecodeChat(body)
	if refusal != nil {
		return nil, refusal
	}
	req := &request{route: RouteChat, choices: chat.Choices()}
	req.prepare = func(ctx context.Context) *openai.Error { return g.prepareChat(ctx, r, req, chat, memory.Size()) }
	return req, nil
}

// prepareChat maps a chat request to what its turns need.
func (g *Gateway) prepareChat(ctx context.Context, r *http.Request, req *request, chat *openai.ChatRequest, claimed int64) (refusal *openai.Error) {
	if refusal = g.plan(ctx, r, req, chat, claimed); refusal != nil {
		return refusal
	}
	id := rand.Text()
	req.options.IDSuffix = strings.ToLower(id[:idSuffixLength])
	req.wire = chatWire{openai.Meta{
		ID:              "chatcmpl-" + id,
		Model:           req.plan.Model,
		Created:         time.Now().Unix(),
		IncludeUsage:    req.plan.IncludeUsage,
		Choices:         req.plan.Choices,
		LegacyFunctions: req.plan.LegacyFunctions,
	}}
	return nil
}

// idSuffixLength gives call ids 40 random bits: enough to tell the turns of a
// conversation apart.
const idSuffixLength = 8

// chatWire is the form of chat completions.
type chatWire struct {
	meta openai.Meta
}

// Stream returns an encoder of chunks.
func (c chatWire) Stream(w *sse.Writer) eventEncoder {
	return &chatEvents{openai.NewChatStream(c.meta, w.WriteData), w}
}

// Whole returns an encoder of a completion.
func (c chatWire) Whole() bodyEncoder { return openai.NewChatBody(c.meta) }

// Refusal is an error in OpenAI's shape.
func (c chatWire) Refusal(failure error) *openai.Error { return openai.FromFailure(failure) }

// chatEvents are chunks in a stream.
type chatEvents struct {
	*openai.ChatStream
	writer *sse.Writer
}

// Open writes nothing: the first chunk of a choice comes with its first output.
func (*chatEvents) Open() error { return nil }

// Holds is false: a chunk has what is new.
func (*chatEvents) Holds() bool { return false }

// Cancel ends nothing: no chat completion can be cancelled but by its client's
// leaving.
func (*chatEvents) Cancel() error { return nil }

// Close writes the counts of the calls and the end mark.
func (e *chatEvents) Close(tools turn.Report) error {
	if err := writeCounts(e.writer, tools); err != nil {
		return err
	}
	return e.writer.WriteDone()
}

// writeCounts writes the counts of the calls, as a comment that clients skip.
func writeCounts(w *sse.Writer, tools turn.Report) error {
	if tools.Calls == 0 {
		return nil
	}
	return w.WriteComment(fmt.Sprintf("tool_calls=%d truncated=%t", tools.Calls, tools.Truncated))
}
