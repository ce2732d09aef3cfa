package turn

import (
	"cmp"
	"errors"

	"github.com/caddy-codex/caddy-codex/aggregator/usetool"
	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// attemptFailed processes an error of Codex, which says whether it will ask the model again.
func (m *Machine) attemptFailed(e *codexrpc.Event) {
	if e.Err == nil {
		return
	}
	m.attempt.lastFailure = e.Err.Message
	if e.WillRetry {
		m.handleRetry(e.Err)
	}
}

func (m *Machine) turnCompleted(e *codexrpc.Event) {
	switch e.Status {
	case codexrpc.StatusCompleted:
		if m.opts.Picture {
			m.failWithoutPicture()
			return
		}
		if m.opts.Summary {
			m.finishSummary()
			return
		}
		m.finish(true)
	case codexrpc.StatusInterrupted:
		m.failWith(usetool.AbortInterrupted, ErrInterrupted)
	default:
		if reason, cut := incompleteReason(e.Err); cut { // the provider has cut the answer
			m.finishCut(reason)
		} else {
			m.fail(cmp.Or(e.Err, errNoReason))
		}
	}
}

// errNoReason is for a turn that Codex reports as failed without an error: it should never happen.
var errNoReason = &codexrpc.TurnError{Message: "the turn failed without a reason", Code: "other"}

// finishCut ends a turn whose answer was cut, for example by a limit of tokens. The finish_reason
// is reason. But if calls were sent, and the cut is not within another call for the client, the
// finish_reason is FinishToolCalls. A turn for a picture or a summary fails.
func (m *Machine) finishCut(reason FinishReason) {
	switch {
	case m.opts.Picture:
		m.failWithoutPicture()
		return
	case m.opts.Summary:
		m.fail(ErrNoSummary)
		return
	}
	m.flushMessage("")
	if m.report.Calls > 0 && (m.policy.isClosed() || !m.lastCall.isCut()) {
		reason = FinishToolCalls
	}
	if !m.done {
		m.emitFinish(reason)
	}
}

func (m *Machine) finishReason() FinishReason {
	if m.report.Calls > 0 {
		return FinishToolCalls
	}
	return FinishStop
}

// stopped reports whether further text and calls of the model are ignored.
func (m *Machine) stopped() bool { return m.done || m.report.Truncated }

// clientHasAll reports whether the client has all the text and calls that it will get. Only the
// usage, and whether the model makes more calls, may still be unknown.
func (m *Machine) clientHasAll() bool { return m.report.Truncated || m.policy.isClosed() }

// finish ends the turn without a failure. A block that is still open becomes text. modelFinished says that
// the turn ends after a complete response of the model.
func (m *Machine) finish(modelFinished bool) {
	m.flushMessage("")
	if !m.done { // flushMessage may have sent a call or text that ended the turn
		m.thread.modelFinished = modelFinished
		m.emitFinish(m.finishReason())
	}
}

func (m *Machine) emitFinish(reason FinishReason) {
	m.policy.end()
	m.done = true
	if !m.thread.modelFinished {
		m.usage.interrupted()
	}
	if reason != FinishStop {
		m.limits.stopSequence = "" // only a turn with FinishStop reports a stop sequence
	}
	total, estimated := m.usage.total()
	m.end = End{reason, m.limits.stopSequence, total, estimated}
	m.out.emit(Output{Kind: OutputFinish, End: &m.end})
}

// Usage returns the tokens of the turn so far, and whether this package has estimated some of them.
// It estimates the tokens of an interrupted response from the output that has arrived.
func (m *Machine) Usage() (total codexrpc.Usage, estimated bool) { return m.usage.total() }

// Price returns the sum of the prices that the provider has reported for the responses so far.
func (m *Machine) Price() Price { return m.usage.price }

func (m *Machine) fail(err error) { m.failWith(usetool.AbortError, err) }

// failWith sends the withheld text, and ends the turn with err. But the turn ends well if the client
// already has all that it will get, or if Codex reports a failure after calls were refused: the response
// broke off after whole calls, which the client can run. blockReason is why an open block becomes text.
func (m *Machine) failWith(blockReason usetool.AbortReason, err error) {
	m.flushMessage(blockReason)
	_, reported := errors.AsType[*codexrpc.TurnError](err)
	switch {
	case m.done:
		return
	case m.clientHasAll(), reported && m.structured.refused && m.report.Calls > 0:
		m.emitFinish(m.finishReason())
		return
	}
	m.policy.sendWithheld()
	m.done = true
	m.usage.askedAgain = false // the input of a response that failed does not count
	m.usage.interrupted()
	m.out.forgetReasoning() // so that the failure can be the first output
	m.out.emit(Output{Kind: OutputFailure, Err: err})
}

// eventAfterTruncate processes events after too many calls: the turn waits only for its usage.
func (m *Machine) eventAfterTruncate(e *codexrpc.Event) {
	switch e.Kind {
	case codexrpc.EventResponseCompleted:
		m.usage.addResponse(e)
		m.emitFinish(m.finishReason())
	case codexrpc.EventTokenUsage:
		m.usage.setThreadTotal(e.Usage, m.opts.Spent)
	case codexrpc.EventTurnCompleted:
		m.emitFinish(m.finishReason())
	}
}
