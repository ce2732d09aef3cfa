package turn

import (
	"encoding/json"
	"strings"

	"github.com/caddy-codex/caddy-codex/aggregator/usetool"
	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// complaint keeps what Codex says of a failure that it tries to mend. Once the
// client has seen a part of the answer, a new attempt would repeat it.
func (m *Machine) complaint(e *codexrpc.Event) {
	if e.Err == nil {
		return
	}
	m.last = strings.Clone(e.Err.Message)
	if !e.WillRetry {
		return
	}
	if m.begun || m.texts.any {
		m.fail(e.Err)
		return
	}
	m.thoughts = m.thoughts[:0] // the new attempt thinks anew
}

func (m *Machine) turnCompleted(e *codexrpc.Event) {
	switch e.Status {
	case codexrpc.StatusCompleted:
		m.closeBuffer("")
		m.rest.natural = !m.done
		m.finish(m.reason())
	case codexrpc.StatusInterrupted:
		m.failAfter(usetool.AbortInterrupted, ErrInterrupted)
	default:
		m.turnFailed(e.Err)
	}
}

// turnFailed tells a response that the model cut from a failure.
func (m *Machine) turnFailed(err *codexrpc.TurnError) {
	reason, ok := incomplete(err)
	if !ok {
		m.fail(failure(err))
		return
	}
	m.finishCut(reason)
}

// finishCut ends a turn whose text was cut. A call that was cut is none; those
// that went out before it are what the turn was for.
func (m *Machine) finishCut(reason FinishReason) {
	m.closeBuffer("")
	if m.calls.count > 0 && !m.endsInCall() {
		reason = FinishToolCalls
	}
	m.finish(reason)
}

// endsInCall reports whether the last thing the model said is a call without an
// end: an open block, or a structured call whose arguments are not JSON.
func (m *Machine) endsInCall() bool {
	return m.cut || m.lastCall != nil && !json.Valid([]byte(m.lastCall.arguments))
}

// reason is how a turn that ended well ended.
func (m *Machine) reason() FinishReason {
	if m.calls.count > 0 {
		return FinishToolCalls
	}
	return FinishStop
}

// stopped reports whether whatever else the model says is not the client's.
func (m *Machine) stopped() bool { return m.done || m.report.Truncated }

// finish ends the turn well. A block that is held then was never closed.
func (m *Machine) finish(reason FinishReason) {
	m.closeBuffer("")
	if !m.done { // the last block can be the one to stop at
		m.end(reason)
	}
}

// stop ends the turn with the call that was just given. Whatever follows in
// the text, seen already or not, is not the client's.
func (m *Machine) stop() {
	m.discard()
	m.end(FinishToolCalls)
}

func (m *Machine) end(reason FinishReason) {
	m.policy.end()
	m.done = true
	m.put(Output{Kind: OutputFinish, Finish: reason, Usage: m.usage.total()})
}

func (m *Machine) fail(err error) { m.failAfter(usetool.AbortError, err) }

// failAfter ends the turn with a failure, after the text that was held.
func (m *Machine) failAfter(held usetool.AbortReason, err error) {
	m.closeBuffer(held)
	switch {
	case m.done:
		return
	case m.report.Truncated:
		m.end(FinishToolCalls)
		return
	}
	m.policy.release()
	m.done = true
	m.thoughts = nil // they would only hide that nothing was said
	m.put(Output{Kind: OutputFailure, Err: err})
}

// lastUsage waits for the end of a turn that was stopped at the limit of its
// calls, where the client has all that it gets: only the usage is missing.
func (m *Machine) lastUsage(e *codexrpc.Event) {
	switch e.Kind {
	case codexrpc.EventResponseCompleted:
		m.usage.response(e.Usage)
		m.end(FinishToolCalls)
	case codexrpc.EventTokenUsage:
		m.usage.thread(e.Usage)
	case codexrpc.EventTurnCompleted:
		m.end(FinishToolCalls)
	}
}
