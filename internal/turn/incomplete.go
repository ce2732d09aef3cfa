package turn

import (
	"strings"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// incompleteMark precedes the reason in Codex's message when the model's response ended
// with response.incomplete.
const incompleteMark = "Incomplete response returned, reason: "

// incomplete returns the finish of a turn whose response was cut, which is no failure for
// a client. It returns false for other errors.
func incomplete(err *codexrpc.TurnError) (FinishReason, bool) {
	if err == nil {
		return "", false
	}
	_, reason, ok := strings.Cut(err.Message+" "+err.Details, incompleteMark) // in the details of a retry
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

// failure returns the error of a failed turn. Codex always sends one; a missing one must
// not become a nil error.
func failure(err *codexrpc.TurnError) error {
	if err == nil {
		return &codexrpc.TurnError{Message: "the turn failed without a reason", Code: "other"}
	}
	return err
}
