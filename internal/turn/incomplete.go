package turn

import (
	"strings"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// incompleteMark is in Codex's message when the model's response ended with
// response.incomplete; the reason is what follows it.
const incompleteMark = "Incomplete response returned, reason: "

// incomplete tells a response that the model cut from a failure: for a client
// of chat completions these are ends, not errors.
func incomplete(err *codexrpc.TurnError) (FinishReason, bool) {
	if err == nil {
		return "", false
	}
	_, reason, ok := strings.Cut(err.Message, incompleteMark)
	if !ok {
		return "", false
	}
	switch {
	case strings.HasPrefix(reason, "max_output_tokens"):
		return FinishLength, true
	case strings.HasPrefix(reason, "content_filter"):
		return FinishContentFilter, true
	}
	return "", false
}

// failure is the error of a failed turn. Codex always gives one; its absence
// must not end in a nil error.
func failure(err *codexrpc.TurnError) error {
	if err == nil {
		return &codexrpc.TurnError{Message: "the turn failed without a reason", Code: "other"}
	}
	return err
}
