package chat

import (
	"strconv"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/jsontext"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// Meta is what all chunks of a stream, and a body, have in common.
type Meta struct {
	ID      string // of the completion, for example "chatcmpl-…"
	Model   string // as the client named it
	Created int64  // Unix time in seconds
	// IncludeUsage adds the usage chunk to a stream. A body always has it.
	IncludeUsage bool
	// Choices is how many turns answer the request; 0 is 1.
	Choices int
	// LegacyFunctions is for clients that know functions instead of tools: a
	// choice's first call becomes a function_call, and there are no others.
	LegacyFunctions bool
}

// finishFunctionCall is the finish_reason of a function_call.
const finishFunctionCall turn.FinishReason = "function_call"

// finishReason is the finish_reason of a turn that ended with this one.
func (m *Meta) finishReason(reason turn.FinishReason) turn.FinishReason {
	if m.LegacyFunctions && reason == turn.FinishToolCalls {
		return finishFunctionCall
	}
	return reason
}

// appendHead appends the members that a chunk and a body begin with.
func appendHead(dst []byte, meta Meta, object string) []byte {
	dst = append(dst, `{"id":`...)
	dst = jsontext.AppendString(dst, meta.ID)
	dst = append(dst, `,"object":"`...)
	dst = append(dst, object...)
	dst = append(dst, `","created":`...)
	dst = strconv.AppendInt(dst, meta.Created, 10)
	dst = append(dst, `,"model":`...)
	dst = jsontext.AppendString(dst, meta.Model)
	return append(dst, `,"choices":[`...)
}

// appendUsage appends a CompletionUsage.
func appendUsage(dst []byte, u codexrpc.Usage) []byte {
	dst = append(dst, `{"prompt_tokens":`...)
	dst = strconv.AppendInt(dst, u.InputTokens, 10)
	dst = append(dst, `,"completion_tokens":`...)
	dst = strconv.AppendInt(dst, u.OutputTokens, 10)
	dst = append(dst, `,"total_tokens":`...)
	dst = strconv.AppendInt(dst, u.TotalTokens, 10)
	dst = append(dst, `,"prompt_tokens_details":{"cached_tokens":`...)
	dst = strconv.AppendInt(dst, u.CachedInputTokens, 10)
	dst = append(dst, `},"completion_tokens_details":{"reasoning_tokens":`...)
	dst = strconv.AppendInt(dst, u.ReasoningOutputTokens, 10)
	return append(dst, `}}`...)
}
