package gateway

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/openai"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/sse"
)

// Chat serves POST /v1/chat/completions.
func (g *Gateway) Chat(w http.ResponseWriter, r *http.Request) { g.serve(w, r, g.readChat) }

// readChat reads, checks and maps a chat request.
func (g *Gateway) readChat(w http.ResponseWriter, r *http.Request) (*request, *openai.Error) {
	body, refusal := g.readBody(w, r)
	if refusal != nil {
		return nil, refusal
	}
	decoded, refusal := openai.DecodeChat(body)
	if refusal != nil {
		return nil, refusal
	}
	plan, refusal := decoded.Plan(openai.PlanOptions{})
	if refusal != nil {
		return nil, refusal
	}
	options, refusal := g.opts.Tools.turnOptions(r, decoded, plan)
	if refusal != nil {
		return nil, refusal
	}
	id := rand.Text()
	options.IDSuffix = strings.ToLower(id[:idSuffixLength])
	meta := openai.Meta{
		ID:           "chatcmpl-" + id,
		Model:        plan.Model,
		Created:      time.Now().Unix(),
		IncludeUsage: plan.IncludeUsage,
		Choices:      plan.Choices,

		LegacyFunctions: plan.LegacyFunctions,
	}
	return &request{plan: plan, options: options, choices: plan.Choices, wire: chatWire{meta}}, nil
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

// chatEvents are chunks in a stream.
type chatEvents struct {
	*openai.ChatStream
	writer *sse.Writer
}

// Open writes nothing: the first chunk of a choice comes with its first output.
func (*chatEvents) Open() error { return nil }

// Close writes the counts of the calls, as a comment that clients skip, and
// the end mark.
func (e *chatEvents) Close(tools turn.Report) error {
	if tools.Calls > 0 {
		counts := fmt.Sprintf("tool_calls=%d truncated=%t", tools.Calls, tools.Truncated)
		if err := e.writer.WriteComment(counts); err != nil {
			return err
		}
	}
	return e.writer.WriteDone()
}
