package chat

import "github.com/caddy-codex/caddy-codex/internal/turn"

// Meta is what all chunks of a stream, and a body, have in common.
type Meta struct {
	ID      string // of the completion, for example "chatcmpl-…"
	Model   string // as the client named it
	Created int64  // Unix time in seconds
	// ServiceTier and Fingerprint are the service_tier and the system_fingerprint. Empty
	// ones are left out.
	ServiceTier, Fingerprint string
	// IncludeUsage adds a chunk with the usage to a stream. A body always has the
	// usage.
	IncludeUsage bool
	// Choices is how many turns answer the request. 0 is 1.
	Choices int
	// LegacyFunctions is true for clients that know functions instead of tools: the
	// first call of a choice becomes a function_call, and others are left out.
	LegacyFunctions bool
	// Forms are the forms of the calls of custom tools, see [Request.Forms].
	Forms map[string]ToolForm
}

const finishFunctionCall turn.FinishReason = "function_call"

// finishReason returns the finish_reason of a turn that ended with this one.
func (m *Meta) finishReason(reason turn.FinishReason) turn.FinishReason {
	if m.LegacyFunctions && reason == turn.FinishToolCalls {
		return finishFunctionCall
	}
	return reason
}
