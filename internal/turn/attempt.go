package turn

import (
	"strings"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// attempt follows the items of one model response. When a response breaks off, Codex asks the model
// again by itself. Codex does not always report this retry: over a WebSocket to the provider, the
// first retry is silent.
type attempt struct {
	openItem      string // id of the item that the model is writing; empty: none
	itemCut       bool   // the model did not finish its last item
	callsAnswered bool   // the response broke off after calls, and these calls were answered

	lastFailure string // the last failure of an attempt that Codex has reported; it may explain why no more events come
}

// errBrokeOff is the failure if a response broke off and Codex has asked the model again silently.
var errBrokeOff = &codexrpc.TurnError{
	Message: "the model's response broke off", Code: "responseStreamDisconnected",
}

// detectRetry detects a silent retry when an item begins. In one response, an item begins only
// after the model has finished the previous item. If the previous item is not finished, the new
// item belongs to another response.
func (m *Machine) detectRetry(e *codexrpc.Event) {
	switch e.ItemType {
	case codexrpc.ItemContextCompaction:
		m.fail(ErrCompacted)
	case codexrpc.ItemAgentMessage, codexrpc.ItemReasoning:
		switch a := m.attempt; {
		case a.itemCut:
			// Only after a content filter does Codex retry an incomplete response.
			m.handleRetry(&codexrpc.TurnError{Message: incompletePrefix + string(FinishContentFilter)})
		case a.callsAnswered, a.openItem != "" && a.openItem != e.ItemID:
			m.handleRetry(errBrokeOff)
		}
		m.attempt = attempt{openItem: e.ItemID, lastFailure: m.attempt.lastFailure}
	}
}

// itemCompleted records the end of an item.
func (a *attempt) itemCompleted(e *codexrpc.Event) {
	if e.ItemID == a.openItem {
		a.openItem = ""
	}
}

// handleRetry handles a retry by Codex after the error err. If the model's response was incomplete,
// the turn ends: another response would be no better. If the client has seen a part of the
// response, the turn fails, since the retry would repeat this part. Otherwise the client gets the
// next response.
func (m *Machine) handleRetry(err *codexrpc.TurnError) {
	reason, ok := incompleteReason(err)
	switch {
	case ok:
		m.finishCut(reason)
	case m.out.responseStarted || m.messages.responseHasText || m.structured.hasPartial:
		m.fail(err)
	default:
		m.out.forgetReasoning() // the reasoning belongs to the failed attempt
		m.thread.forgetResponse()
	}
}

// waitsForResults reports whether Codex waits for the results of structured calls. While Codex
// waits, it does not report that the model's response broke off. brokeOff is true if earlier events
// show that the response broke off.
func (m *Machine) waitsForResults() (waits, brokeOff bool) {
	return m.structured.hasComplete && !m.structured.refused && !m.done && len(m.pictures.pending) == 0, m.attempt.itemCut
}

// setCallsRefused records that the calls were answered with a failure.
func (m *Machine) setCallsRefused() { m.structured.refused, m.thread.differs = true, true }

// incompletePrefix precedes the reason in Codex's message when the model's response ended with
// response.incomplete.
const incompletePrefix = "Incomplete response returned, reason: "

// incompleteReason reports whether err means that the model's response was cut, which is no failure
// for the client. If so, it also returns the finish reason of the turn.
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
