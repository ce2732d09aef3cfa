package turn

import (
	"slices"

	"github.com/caddy-codex/caddy-codex/aggregator"
	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// Codex 0.169 sends each structured call as a whole, before it says that the call has begun. Some
// builds of Codex announce the call first, and then send its arguments in fragments. In this case
// the client gets the name at once, and then each fragment.

// callBegun processes the begin of a structured call.
func (m *Machine) callBegun(e *codexrpc.Event) {
	name, ok := m.clientName(e.Name)
	call := aggregator.Input{ThreadItem: e.ItemID, Name: name}
	if ok && e.ItemID != "" && !slices.Contains(m.rest.waits, e.ItemID) {
		m.partialCall(call)
	}
}

// partialCall processes the name or a fragment of a structured call that is not complete yet.
func (m *Machine) partialCall(call aggregator.Input) {
	if m.choice.Ended(call) {
		return
	}
	if m.attempt.over {
		m.retried(errBrokeOff)
		return
	}
	if !m.choice.Knows(call) {
		m.releaseText() // it precedes the call
		if m.stopped() || m.full() {
			return
		}
		m.structured.partial = true
	}
	m.grace.running = m.policy.closed()
	m.last = lastSaid{call: true}
	m.usage.say(call.Name)
	m.usage.say(call.Text)
	m.pass(m.choice.Call(call, m.parts[:0]))
}

// endItems ends the calls that were sent in fragments, and the pending pictures, because no more
// fragments or pictures will come.
func (m *Machine) endItems() {
	m.endPictures()
	if !m.structured.partial {
		return
	}
	for _, part := range m.choice.End(nil) {
		if part.Kind == aggregator.PartCall {
			m.rest.differs = true
			m.policy.call(&part)
		}
	}
}
