package turn

import (
	"github.com/caddy-codex/caddy-codex/aggregator"
	"github.com/caddy-codex/caddy-codex/aggregator/usetool"
)

// processParts processes the choice's parts, until the end of the turn or a call above the limit.
func (m *Machine) processParts(parts []aggregator.Part) {
	m.parts = parts
	for i := range parts {
		if m.stopped() {
			break // an earlier part has ended the turn or exceeded the limit
		}
		m.processPart(&parts[i])
	}
	clear(parts)
}

// processPart counts a part in the report and, if it is admitted, passes it on to the policy.
func (m *Machine) processPart(p *aggregator.Part) {
	isBlock := p.Kind != aggregator.PartText && p.Text != "" // the part comes from a complete block
	if isBlock {
		m.report.Flushed++
	}
	admitted := m.runs.admit(p) // may change p.Text
	switch p.Kind {
	case aggregator.PartText:
		m.policy.addTextAt(p.Text, p.Offset)
	case aggregator.PartBlockStarted:
		m.report.Started++
	case aggregator.PartBlockAborted:
		if m.report.abort(p.Reason); admitted {
			m.blockAborted(p)
		}
	case aggregator.PartCall:
		if admitted {
			m.policy.sendCall(p)
			m.startGraceAfterCall(isBlock, true)
		}
	case aggregator.PartDuplicate:
		m.report.Duplicates++
		m.startGraceAfterCall(isBlock, false)
	case aggregator.PartOverLimit:
		admitted = false
	}
	if !admitted {
		m.truncate()
	}
}

// startGraceAfterCall starts the [grace] after a call, if the options ask for it. isBlock says that the
// call is a block in the text. sent is false if the client does not get the call, since it repeats another.
func (m *Machine) startGraceAfterCall(isBlock, sent bool) {
	if sent && m.policy.isClosed() || isBlock && m.report.Calls > 0 && m.opts.StopAfterTools != StopOff && !m.structured.hasComplete {
		m.grace.start()
	}
}

// blockAborted processes the end of a block that is no call; its text follows as parts. After textual
// calls, the [grace] starts again. But if the block was too large, the grace stops: it could end the turn
// before the rest of the block. If the client already has all that it will get, the grace stays as it is.
func (m *Machine) blockAborted(p *aggregator.Part) {
	m.policy.blockAborted(p)
	switch {
	case m.policy.isClosed():
	case p.Reason == usetool.AbortTooLarge:
		m.grace.running = false
	case m.report.Calls > 0 && m.opts.StopAfterTools != StopOff && !m.structured.hasComplete:
		m.grace.start()
	}
}

func (m *Machine) clientName(name string) (string, bool) {
	if m.opts.ClientName == nil {
		return name, true
	}
	return m.opts.ClientName(name)
}

// blockName returns the client's name of a tool in a block. The model may already use it, from the prompt.
func (m *Machine) blockName(name string) string {
	if client, ok := m.clientName(name); ok {
		return client
	}
	return name
}

// flushMessage ends a message and passes on the held text. A tag or a block without an end becomes
// text, a code fence ends. reason is why the block is no call; "": [usetool.AbortUnclosed].
func (m *Machine) flushMessage(reason usetool.AbortReason) {
	m.releaseText()
	if m.choice.BlockOpen() {
		m.lastCall.openBlock = true
	}
	m.processParts(m.choice.EndMessage(reason, m.parts[:0]))
}

// grace is the wait of a turn for more calls: after a block or, in StopFirst, after the first call. The
// machine has no clock: each start changes generation, so that the caller sets a new deadline.
type grace struct {
	running    bool
	hasText    bool // text has come since the start
	generation int
}

func (g *grace) start() { *g = grace{running: true, generation: g.generation + 1} }
