package turn

import (
	"slices"

	"github.com/caddy-codex/caddy-codex/aggregator"
	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// Codex 0.169 sends each structured call as a whole, before it reports that the call has begun.
// Some builds of Codex announce the call first, and then send its arguments in fragments. In this
// case the client gets the name immediately, and then each fragment.

// callStarted processes the start of a structured call. It ignores a call that has already come as
// a whole, and a call of a tool that is not the client's.
func (m *Machine) callStarted(e *codexrpc.Event) {
	name, ok := m.clientName(e.Name)
	call := aggregator.Input{ThreadItem: e.ItemID, Name: name}
	if ok && e.ItemID != "" && !slices.Contains(m.thread.pendingCalls, e.ItemID) {
		m.partialCall(call)
	}
}

// partialCall processes the name or a fragment of a structured call that is not complete.
func (m *Machine) partialCall(call aggregator.Input) {
	if m.choice.Ended(call) {
		return
	}
	if m.attempt.callsAnswered {
		m.handleRetry(errBrokeOff)
		return
	}
	if !m.choice.Knows(call) {
		m.releaseText() // the held text precedes the call
		if m.stopped() || m.checkTokenLimit() {
			return
		}
		m.structured.hasPartial = true
	}
	m.grace.running = m.policy.isClosed()
	m.lastCall = lastCall{structured: true}
	m.usage.addText(call.Name)
	m.usage.addText(call.Text)
	m.processParts(m.choice.Call(call, m.parts[:0]))
}

// endCallsAndPictures ends the calls of which only fragments have come, and the pending pictures.
// It is called when the turn ends, or when too many outputs wait for the end of a call or picture.
func (m *Machine) endCallsAndPictures() {
	m.failPendingPictures()
	if !m.structured.hasPartial {
		return
	}
	for _, part := range m.choice.End(nil) {
		if part.Kind == aggregator.PartCall {
			m.thread.differs = true
			m.policy.addCall(&part)
		}
	}
}
