package turn

import "github.com/caddy-codex/caddy-codex/codexrpc"

// emitSearch emits the start or end of a search. The client's history has no searches, so the thread
// differs from what the client was given.
func (m *Machine) emitSearch(o Output) {
	m.thread.differs = true
	if m.opts.Items && !m.stopped() {
		m.out.emit(o)
	}
}

// emitAnnotations emits the annotations of the last message. It drops them if the client did not
// get all the text as the model wrote it, since their indexes would be wrong.
func (m *Machine) emitAnnotations(e *codexrpc.Event) {
	start := m.out.chars - e.Index // Index is the message's number of characters; below 0: not all were sent
	if !m.opts.WebSearch || m.stopped() || m.messages.lastItem != e.ItemID || start < 0 || m.report.Started > 0 {
		return
	}
	m.out.emit(Output{Kind: OutputAnnotations, ID: e.ItemID, Text: e.Text, Part: start})
}

// emitMessageEnd emits the end of the last message if messageCompleted has delayed it.
func (m *Machine) emitMessageEnd() {
	if phase := m.endedPhase; phase != "" {
		m.endedPhase = ""
		if !m.stopped() {
			m.policy.endMessage(phase)
		}
	}
}
