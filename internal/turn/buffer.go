package turn

import (
	"github.com/caddy-codex/caddy-codex/aggregator/usetool"
)

// scanned processes what the scanner has made of the text.
func (m *Machine) scanned(segments []usetool.Segment) {
	m.segments = segments
	for i := range segments {
		if m.stopped() {
			break // the turn ended with a block
		}
		m.segment(&segments[i])
	}
	clear(segments)
}

func (m *Machine) segment(s *usetool.Segment) {
	switch s.Kind {
	case usetool.SegmentText:
		m.policy.text(s.Text)
	case usetool.SegmentStarted:
		m.report.Started++
		m.open++
	case usetool.SegmentBlock:
		m.report.Flushed++
		m.open--
		call := &candidate{name: s.Name, arguments: s.Arguments, textual: true}
		if client, ok := m.clientName(s.Name); ok {
			call.name = client
		}
		if s.Pattern == "" {
			call.block = s.Text
		}
		m.offer(call)
	case usetool.SegmentAborted:
		m.blockAborted(s.Reason, s.Pattern)
	case usetool.SegmentUndeclared:
		m.blockAborted(AbortUndeclared, s.Pattern)
	}
}

// blockAborted processes the end of a begun block that is no call. Its text follows. No
// grace runs until the next block, which would cut the rest of a block that is too
// large.
func (m *Machine) blockAborted(reason usetool.AbortReason, pattern string) {
	m.countAborted(reason)
	m.policy.blockAborted(reason, pattern)
	switch {
	case m.report.Truncated:
		m.truncate()
	case !m.policy.closed():
		m.grace.running = false
	}
}

// countAborted counts a begun block that is no call.
func (m *Machine) countAborted(reason usetool.AbortReason) {
	m.open--
	m.report.abort(reason)
}

// discard ignores the rest of the text. It counts a block that is open as aborted.
func (m *Machine) discard() {
	m.scanner, m.stops, m.limit = nil, nil, nil
	for m.open > 0 {
		m.countAborted(usetool.AbortInterrupted)
	}
}

// clientName returns the client's name of a tool that Codex knows as name, or false. A
// block may also have the name in the client's prompt.
func (m *Machine) clientName(name string) (string, bool) {
	if m.opts.ClientName == nil {
		return name, true
	}
	return m.opts.ClientName(name)
}

// closeBuffer ends a message: what is held is passed on, a begun tag and an open block
// become text, and a code fence ends. reason is why an open block is no call; empty: it
// was not closed.
func (m *Machine) closeBuffer(reason usetool.AbortReason) {
	m.releaseText()
	if m.scanner == nil {
		return
	}
	if m.scanner.Open() {
		m.cut = true
	}
	m.scanned(m.scanner.Finish(reason, m.segments[:0]))
}

// countHeld counts the open block of a turn whose client has gone as aborted.
func (m *Machine) countHeld() {
	if m.scanner == nil {
		return
	}
	for _, s := range m.scanner.Finish(usetool.AbortDisconnect, nil) {
		switch s.Kind {
		case usetool.SegmentStarted:
			m.report.Started++
		case usetool.SegmentBlock, usetool.SegmentAborted, usetool.SegmentUndeclared:
			m.report.abort(usetool.AbortDisconnect)
		}
	}
}

// grace is the time for which a turn goes on after a textual block. Each block starts it
// again. The machine has no clock: its caller watches the generation.
type grace struct {
	running    bool
	generation int
}

func (g *grace) start() {
	g.running = true
	g.generation++
}
