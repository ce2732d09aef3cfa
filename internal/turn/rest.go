package turn

import (
	"slices"
	"strings"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// Rest is what a turn that has ended for its client leaves on its thread.
type Rest struct {
	// Whole says that the thread holds what the client was given, no more and no
	// less, so that the conversation can go on there.
	Whole bool
	// Waits are the ids of the calls whose results Codex waits for, in the order in
	// which the client got the calls. Without any the turn ends by itself.
	Waits []string
}

// rest collects what a thread holds that its client was not given.
type rest struct {
	waits   []string
	differs bool // something
	natural bool // the model had said all that it wanted
}

// call notes a structured call. Calls that share an id cannot be answered.
func (r *rest) call(e *codexrpc.Event, theirs bool) {
	if !theirs || e.CallID == "" || slices.Contains(r.waits, e.CallID) {
		r.differs = true
		return
	}
	if len(r.waits) < maxWaits {
		r.waits = append(r.waits, strings.Clone(e.CallID))
	}
}

// maxWaits bounds the calls that a turn may wait for. One more makes the counts
// differ.
const maxWaits = 512

// Rest is what the turn leaves. It is to be asked once the turn is done.
func (m *Machine) Rest() Rest {
	tools := m.report
	whole := m.done && m.rest.natural && !m.rest.differs && !tools.Truncated &&
		tools.Duplicates+tools.Unwritable+tools.TailBytes == 0
	switch structured := len(m.rest.waits); {
	case m.opts.xml() && structured > 0, !m.opts.xml() && structured != tools.Calls:
		whole = false // the client reads calls in another form than the model wrote them
	}
	return Rest{Whole: whole, Waits: m.rest.waits}
}
