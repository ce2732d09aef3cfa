package turn

import (
	"slices"

	"github.com/caddy-codex/caddy-codex/aggregator"
	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// Codex 0.169 sends each structured call as a whole, before it says that the call has begun. Some
// builds say that first, and send fragments of the arguments. The client then gets the name at
// once, and each fragment.

// callBegun processes the begin of a structured call.
func (m *Machine) callBegun(e *codexrpc.Event) {
	name, ok := m.clientName(e.Name)
	call := aggregator.Input{ThreadItem: e.ItemID, Name: name}
	if ok && e.ItemID != "" && !slices.Contains(m.rest.waits, e.ItemID) {
		m.partialCall(call)
	}
}

// partialCall processes what is said of a structured call before it is complete.
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
		m.partial = true
	}
	m.grace.running = m.policy.closed()
	m.cut, m.lastCall, m.afterCall = false, "", true // which is no JSON
	m.usage.say(call.Name)
	m.usage.say(call.Text)
	m.pass(m.choice.Call(call, m.parts[:0]))
}

// endCalls ends the calls of which no more will come.
func (m *Machine) endCalls() {
	if !m.partial {
		return
	}
	for _, part := range m.choice.End(nil) {
		if part.Kind == aggregator.PartCall {
			m.rest.differs = true
			m.policy.call(&part)
		}
	}
}

// ofCall reports whether an output of the kind is a part of a call.
func (k OutputKind) ofCall() bool {
	return k == OutputCallStart || k == OutputCallArguments || k == OutputCallEnd
}

// maxHeldBytes bounds the outputs that wait for the end of a call, in bytes.
const maxHeldBytes = 1 << 20

// hold keeps an output until the call under way has ended. If there are too many, the call ends.
func (m *Machine) hold(o Output) {
	m.held = append(m.held, o)
	if m.heldBytes += len(o.Text) + outputSize; m.heldBytes > maxHeldBytes {
		m.endCalls()
	}
}

// outputSize is about what an output takes beside its text, in bytes.
const outputSize = 200

// emitHeld emits what has waited for the end of a call.
func (m *Machine) emitHeld() {
	held := m.held
	m.held, m.heldBytes = nil, 0
	for _, o := range held {
		m.emit(o)
	}
}
