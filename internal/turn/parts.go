package turn

import (
	"github.com/caddy-codex/caddy-codex/aggregator"
	"github.com/caddy-codex/caddy-codex/aggregator/usetool"
)

// processParts processes parts of the choice, in order. It drops the parts that follow the end of
// the turn or a call above the limit.
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

func (m *Machine) processPart(p *aggregator.Part) {
	isBlock := p.Kind != aggregator.PartText && p.Text != ""
	if isBlock {
		m.report.Flushed++
	}
	admitted := m.runs.admit(p)
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
		m.report.Truncated = true
		m.truncate()
	}
}

// startGraceAfterCall is called after a call. It starts the [grace] (the wait for more calls) if
// the options ask for it. isBlock is true if the call is a block in the text. sent is false if the
// client does not get the call, since it repeats an earlier one.
func (m *Machine) startGraceAfterCall(isBlock, sent bool) {
	switch {
	case sent && m.policy.isClosed():
		m.grace.start()
	case isBlock && m.report.Calls > 0 && m.opts.StopAfterTools != StopOff && !m.structured.hasComplete:
		m.grace.start()
	}
}

// blockAborted processes the end of a block that is not a call. The next parts have the text of the
// block. If textual calls came before, the [grace] (the wait for more calls) starts again. But
// after a block that is too large, the grace stops: otherwise the grace could end the turn before
// the rest of the block has come. If the client already has all that it will get, the grace stays
// as it is.
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

// discardText drops the text that the limits hold, and counts each open block as aborted.
func (m *Machine) discardText() {
	m.limits.clear()
	for m.report.open() > 0 {
		m.report.abort(usetool.AbortInterrupted)
	}
}

// clientName returns the client's name of a tool that Codex knows as name. It returns false if the
// tool is not the client's.
func (m *Machine) clientName(name string) (string, bool) {
	if m.opts.ClientName == nil {
		return name, true
	}
	return m.opts.ClientName(name)
}

// blockName returns the client's name of a tool that a block names. The block may already have the
// client's name, since the model knows it from the client's prompt.
func (m *Machine) blockName(name string) string {
	if client, ok := m.clientName(name); ok {
		return client
	}
	return name
}

// flushMessage ends a message of the model, and passes on the text that was held. A tag or a block
// without an end becomes text, and an open code fence ends. reason is why an open block is not a
// call; "" stands for [usetool.AbortUnclosed].
func (m *Machine) flushMessage(reason usetool.AbortReason) {
	m.releaseText()
	if m.choice.BlockOpen() {
		m.lastCall.openBlock = true
	}
	m.processParts(m.choice.EndMessage(reason, m.parts[:0]))
}

// grace is the time for which a turn waits for more calls: after a block in the text, or in
// StopFirst after the first call. Each start of the grace changes generation. The machine has no
// clock: its caller sets a deadline whenever generation changes.
type grace struct {
	running    bool
	hasText    bool // text has come since the start
	generation int
}

func (g *grace) start() { *g = grace{running: true, generation: g.generation + 1} }
