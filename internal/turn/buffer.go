package turn

import (
	"github.com/caddy-codex/caddy-codex/aggregator/usetool"
)

// scanned passes on what the tool buffer has made of the text.
func (m *Machine) scanned(segments []usetool.Segment) {
	m.segments = segments
	for i := range segments {
		if m.stopped() {
			break // the turn ends with a block that was seen; the rest is not its own
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
		m.open = true
	case usetool.SegmentBlock:
		m.report.Flushed++
		m.open = false
		m.take(&candidate{name: m.clientName(s.Name), arguments: s.Arguments, block: s.Text})
	case usetool.SegmentAborted:
		m.givenUp(s.Reason)
	case usetool.SegmentUndeclared:
		m.givenUp(AbortUndeclared)
	}
}

// givenUp takes the notice that a begun block is no call. Its text follows, and
// no grace runs until the next block: the model is not cut off in the rest of a
// block that was too large.
func (m *Machine) givenUp(reason usetool.AbortReason) {
	m.aborted(reason)
	m.policy.givenUp(reason)
	if m.report.Truncated {
		m.truncate()
		return
	}
	m.grace.running = false
}

// aborted counts a begun block that is no call.
func (m *Machine) aborted(reason usetool.AbortReason) {
	m.open = false
	m.report.abort(reason)
}

// discard forgets the rest of the text, which is not the client's any more. An
// open block in it counts if it was begun before that was so.
func (m *Machine) discard() {
	m.scanner, m.stops, m.limit = nil, nil, nil
	if m.open {
		m.aborted(usetool.AbortInterrupted)
	}
}

// clientName maps the name in a block. The model may use the name by which
// Codex offered the tool, or the one of which the client's prompt speaks.
func (m *Machine) clientName(name string) string {
	if m.opts.ClientName != nil {
		if client, ok := m.opts.ClientName(name); ok {
			return client
		}
	}
	return name
}

// closeBuffer ends a message: what is held goes out, a begun tag and an open
// block become text, and what was in a code fence is not any more. The empty
// reason says that the block was simply never closed.
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

// countHeld counts the open block of a turn whose client has gone: nobody gets
// it, whatever it might have been.
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

// grace is the time that a turn is given after a textual block. Each block
// begins it anew. The machine has no clock: whoever drives it watches the
// generation.
type grace struct {
	running    bool
	generation int
}

func (g *grace) start() {
	g.running = true
	g.generation++
}
