package turn

import (
	"slices"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// Rest is the state of a thread after a turn that has ended for its client.
type Rest struct {
	// Whole reports whether the thread has exactly what the client was given, so that the
	// conversation can go on there.
	Whole bool
	// Waits are the ids of the calls whose results Codex waits for, in the order of the calls. If
	// there are none, Codex ends the turn by itself.
	Waits []string
	// Reasoning has the reasoning items of the model's response, if they have encrypted content.
	Reasoning []Reasoning
}

// Reasoning is an item of the model's reasoning. Only its provider can read it.
type Reasoning struct {
	Before int    // how many messages and calls of the response precede the item
	Item   string // the item of the Responses API, as JSON
}

// rest records whether a thread differs from what the client was given.
type rest struct {
	waits   []string
	differs bool // the thread differs
	natural bool // the model had finished its response

	items          int // messages and calls of the model's response
	reasoning      []Reasoning
	reasoningBytes int
}

const (
	maxReasoningItems = 64      // items of reasoning that are kept of a turn
	maxReasoningBytes = 1 << 20 // bytes that they may have together
)

// reason records an item of reasoning.
func (r *rest) reason(e *codexrpc.Event) {
	if r.reasoningBytes += len(e.Raw); e.Text != "" && len(r.reasoning) < maxReasoningItems && r.reasoningBytes <= maxReasoningBytes {
		r.reasoning = append(r.reasoning, Reasoning{Before: r.items, Item: e.Raw})
	}
}

// again forgets the items of a response that broke off.
func (r *rest) again() { r.items, r.reasoning, r.reasoningBytes = 0, nil, 0 }

// call records a structured call. theirs is true if the tool is the client's. The thread differs
// from what the client was given in three cases: the tool is not the client's; the call has no id
// or the id of another call, so that it cannot be answered; or Codex cannot read the arguments, so
// that Codex answers the call itself.
func (r *rest) call(e *codexrpc.Event, theirs bool) {
	if !theirs || e.CallID == "" || slices.Contains(r.waits, e.CallID) || !wirejson.Readable(wirejson.View(e.Text)) {
		r.differs = true
		return
	}
	r.items++
	if len(r.waits) < maxWaits {
		r.waits = append(r.waits, e.CallID)
	}
}

// maxWaits bounds the calls that a turn may wait for. If there are more, [Rest].Whole is false.
const maxWaits = 512

// Rest returns the state of the thread, once the turn is done.
func (m *Machine) Rest() Rest {
	tools := m.report
	whole := m.done && m.rest.natural && !m.rest.differs && !m.texts.differs && m.texts.open == 0 && !tools.Truncated &&
		tools.Duplicates+tools.Unwritable+tools.TailBytes == 0
	switch structured := len(m.rest.waits); {
	case m.opts.xml() && structured > 0, !m.opts.xml() && structured != tools.Calls:
		whole = false // the client reads calls in another form than the model wrote them
	}
	return Rest{Whole: whole, Waits: m.rest.waits, Reasoning: m.rest.reasoning}
}
