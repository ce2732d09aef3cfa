package turn

import (
	"strings"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// attempt tracks the items of one model response, so that the machine notices when the response broke off
// and Codex asks the model again: over a WebSocket to the provider, Codex does not report its first retry.
type attempt struct {
	openItem      string // id of the item that the model is writing; empty: none
	itemCut       bool   // the model left an item of the response unfinished
	callsAnswered bool   // the response broke off after calls, and these calls were answered with a failure

	lastFailure string // the message of the last error that Codex has reported; empty: none. It may explain why no more events come
}

// errBrokeOff is the error of a response that broke off, if Codex retries without reporting an error.
var errBrokeOff = &codexrpc.TurnError{
	Message: "the model's response broke off", Code: "responseStreamDisconnected",
}

// detectRetry detects a retry that Codex does not report. It is called when an item begins: in one
// response, an item begins only after the model has finished the previous item. If Codex begins to
// summarise the history, the turn fails.
func (m *Machine) detectRetry(e *codexrpc.Event) {
	switch e.ItemType {
	case codexrpc.ItemContextCompaction:
		m.fail(ErrCompacted)
	case codexrpc.ItemAgentMessage, codexrpc.ItemReasoning:
		switch a := m.attempt; {
		case a.itemCut:
			// Codex retries an incomplete response only if a content filter has cut it.
			m.handleRetry(&codexrpc.TurnError{Message: incompletePrefix + string(FinishContentFilter)})
		case a.callsAnswered, a.openItem != "" && a.openItem != e.ItemID:
			m.handleRetry(errBrokeOff)
		}
		m.attempt = attempt{openItem: e.ItemID, lastFailure: m.attempt.lastFailure}
	}
}

// handleRetry is called when Codex asks the model again after err. If the response was cut (see
// incompleteReason), the turn ends: another response would be no better. If the response had any output,
// the turn fails, since the retry would repeat it. Otherwise the client gets the next response.
func (m *Machine) handleRetry(err *codexrpc.TurnError) {
	reason, ok := incompleteReason(err)
	switch {
	case ok:
		m.finishCut(reason)
	case m.opts.Summary: // nothing of the failed attempt was an output
		m.summary.text, m.summary.hasCalls = nil, false
	case m.out.responseStarted || m.messages.responseHasText:
		m.fail(err)
	default:
		m.out.forgetReasoning() // the reasoning belongs to the failed attempt
	}
}

// incompletePrefix precedes the reason in Codex's message about an event response.incomplete.
const incompletePrefix = "Incomplete response returned, reason: "

// incompleteReason reports whether err means that the model's response was cut, which is no failure
// for the client. If so, it returns FinishLength or FinishContentFilter as well.
func incompleteReason(err *codexrpc.TurnError) (FinishReason, bool) {
	if err == nil {
		return "", false
	}
	_, reason, ok := strings.Cut(err.Message+" "+err.Details, incompletePrefix) // if Codex retries, the reason is in the details
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

const (
	// maxStrayResponses is how many responses of a turn may call tools that are not the client's. A
	// model that ignores Codex's refusals would go on until its context is full.
	maxStrayResponses = 16
	// maxStrayCalls bounds the recorded calls of tools that are not the client's (stray calls).
	// Their ids serve to check that Codex refuses these calls. There are hardly ever more.
	maxStrayCalls = 64
)

// strayCalls tracks a turn's calls of tools that are not the client's. Codex has to refuse them.
type strayCalls struct {
	ids        []string // ids of these calls, at most maxStrayCalls
	inResponse bool     // the current model response has such a call, or a call for a picture
	responses  int      // number of responses for which inResponse was true
}
