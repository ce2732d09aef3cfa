package turn

import "github.com/caddy-codex/caddy-codex/codexrpc"

// webSearch is the state of a turn with web searches.
type webSearch struct {
	// ended is true if a message has ended but its end was not emitted yet, since the annotations
	// of the message may be the next event. phase is the phase of that message.
	ended bool
	phase string
}

// searched emits the begin or the end of a web search. After a search, the thread differs from the
// history that a client sends back, which does not have the search.
func (m *Machine) searched(o Output) {
	m.rest.differs = true
	if m.opts.Items && !m.stopped() {
		m.out.emit(o)
	}
}

// annotated processes the annotations of the last message. It drops them if the client did not get
// the whole text as the model wrote it, since their indexes would be wrong.
func (m *Machine) annotated(e *codexrpc.Event) {
	begin := m.out.chars - e.Index
	if !m.opts.WebSearch || m.stopped() || m.texts.last != e.ItemID || begin < 0 || m.report.Started > 0 {
		return
	}
	m.out.emit(Output{Kind: OutputAnnotations, ID: e.ItemID, Text: e.Text, Part: begin})
}

// endMessage emits the end of the last message, which messageEnded has delayed until the
// annotations of the message.
func (m *Machine) endMessage() {
	if m.search.ended {
		m.search.ended = false
		if !m.stopped() {
			m.policy.phase(m.search.phase)
		}
	}
}

// messageEnded emits the end of a message, or lets it wait for annotations.
func (m *Machine) messageEnded(phase string) {
	if m.opts.WebSearch {
		m.search.ended, m.search.phase = true, phase
		return
	}
	m.policy.phase(phase)
}
