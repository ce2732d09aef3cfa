package turn

import (
	"cmp"

	"github.com/caddy-codex/caddy-codex/aggregator/usetool"
	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// attemptFailed records the error of an attempt. Codex may repeat the attempt.
func (m *Machine) attemptFailed(e *codexrpc.Event) {
	if e.Err == nil {
		return
	}
	m.attempt.failure = e.Err.Message
	if e.WillRetry {
		m.retried(e.Err)
	}
}

func (m *Machine) turnCompleted(e *codexrpc.Event) {
	switch e.Status {
	case codexrpc.StatusCompleted:
		if m.opts.PictureOnly {
			m.withoutPicture()
			return
		}
		m.closeBuffer("")
		m.rest.natural = !m.done
		m.finish(m.reason())
	case codexrpc.StatusInterrupted:
		m.failAfter(usetool.AbortInterrupted, ErrInterrupted)
	default:
		if reason, cut := incomplete(e.Err); cut { // by the provider
			m.finishCut(reason)
		} else {
			m.fail(cmp.Or(e.Err, errNoReason))
		}
	}
}

// errNoReason is the failure of a turn for which Codex has sent no error. This should never happen.
var errNoReason = &codexrpc.TurnError{Message: "the turn failed without a reason", Code: "other"}

// finishCut ends a turn whose answer was cut, for example by a limit of tokens. The finish_reason
// is reason. But if calls were sent before, and the cut is not within another call, it is
// FinishToolCalls.
func (m *Machine) finishCut(reason FinishReason) {
	if m.opts.PictureOnly {
		m.withoutPicture()
		return
	}
	m.closeBuffer("")
	if m.report.Calls > 0 && (m.policy.closed() || !m.last.isCut()) {
		reason = FinishToolCalls
	}
	m.finish(reason)
}

// reason returns the finish of a turn that ended well.
func (m *Machine) reason() FinishReason {
	if m.report.Calls > 0 {
		return FinishToolCalls
	}
	return FinishStop
}

// stopped reports whether further text and calls of the model are ignored.
func (m *Machine) stopped() bool { return m.done || m.report.Truncated }

// hasAll reports whether the client has all the text and calls that it will get. Only the usage,
// and whether the model makes more calls, may still be unknown.
func (m *Machine) hasAll() bool { return m.report.Truncated || m.policy.closed() }

// finish ends the turn without a failure. It treats a <use_tool> block that is still open as a
// block that is never closed.
func (m *Machine) finish(reason FinishReason) {
	m.closeBuffer("")
	if !m.done { // closeBuffer may have ended the turn with a call
		m.end(reason)
	}
}

func (m *Machine) end(reason FinishReason) {
	m.pictures.last = ""
	m.endItems()
	m.policy.end()
	m.done = true
	if !m.rest.natural {
		m.usage.interrupt()
	}
	if reason != FinishStop {
		m.cuts.sequence = "" // something else has ended the turn
	}
	total, estimated := m.usage.total()
	m.out.emit(Output{Kind: OutputFinish, Finish: reason, StopSequence: m.cuts.sequence, Usage: total, Estimated: estimated})
}

// Usage returns the tokens of the turn so far, and whether this package has estimated some of them.
// It estimates the tokens of an interrupted response from the output that has arrived.
func (m *Machine) Usage() (total codexrpc.Usage, estimated bool) { return m.usage.total() }

// Price returns the sum of the prices that the provider has reported for the responses of the turn
// so far.
func (m *Machine) Price() Price { return m.usage.price }

func (m *Machine) fail(err error) { m.failAfter(usetool.AbortError, err) }

// failAfter sends the text that was withheld, and ends the turn with the failure err. But if the
// client already has all that it will get, the turn ends without a failure. If a <use_tool> block
// is open, it is not a call, and held is the reason to report for that.
func (m *Machine) failAfter(held usetool.AbortReason, err error) {
	m.closeBuffer(held)
	switch {
	case m.done:
		return
	case m.hasAll():
		m.end(m.reason())
		return
	}
	m.policy.release()
	m.pictures.last = ""
	if len(m.out.held) > 0 {
		m.endItems()
	}
	m.done = true
	m.usage.interrupt()
	m.out.fail(err)
}

// lastUsage processes an event after the limit of calls was exceeded, when only the usage
// is missing.
func (m *Machine) lastUsage(e *codexrpc.Event) {
	switch e.Kind {
	case codexrpc.EventResponseCompleted:
		m.usage.response(e)
		m.end(m.reason())
	case codexrpc.EventTokenUsage:
		m.usage.thread(e.Usage, m.opts.Spent)
	case codexrpc.EventTurnCompleted:
		m.end(m.reason())
	}
}
