package turn

import "github.com/caddy-codex/caddy-codex/codexrpc"

// webSearch is the state of a turn with web searches.
type webSearch struct {
	// ended says that a message has ended, and phase is its phase. If the message has annotations,
	// they are the next event.
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
