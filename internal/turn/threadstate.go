package turn

import (
	"slices"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// ThreadState is the state of a thread after a turn that has ended for its client.
type ThreadState struct {
	// InSync reports whether the thread has what the client was given, and so can go on.
	InSync bool
	// PendingCalls are the ids of calls whose results Codex waits for, in order. None: Codex ends the turn.
	PendingCalls []string
}

// threadTracker records what [Machine.ThreadState] returns.
type threadTracker struct {
	pendingCalls  []string // see [ThreadState]
	differs       bool     // the thread differs from what the client was given
	modelFinished bool     // the turn ended after a complete response of the model
}

// addCall records a structured call. The thread differs from what the client was given if the tool is not
// the client's, if the call cannot be answered (it has no id, or that of an earlier call), or if Codex
// cannot read the arguments and answers the call itself.
func (r *threadTracker) addCall(e *codexrpc.Event, clientsTool bool) {
	if !clientsTool || e.CallID == "" || slices.Contains(r.pendingCalls, e.CallID) || !wirejson.Readable(wirejson.View(e.Text)) {
		r.differs = true
		return
	}
	if len(r.pendingCalls) < maxPendingCalls {
		r.pendingCalls = append(r.pendingCalls, e.CallID)
	}
}

// maxPendingCalls bounds [ThreadState].PendingCalls. With more, [ThreadState].InSync is false.
const maxPendingCalls = 512

// ThreadState returns the state of the thread. InSync is false until the turn is done.
func (m *Machine) ThreadState() ThreadState {
	report := m.report
	inSync := m.done && m.thread.modelFinished && !m.thread.differs && !m.messages.differs && m.messages.incomplete == 0 && !report.Truncated &&
		report.Duplicates+report.Unwritable+report.TailBytes == 0
	switch structured := len(m.thread.pendingCalls); {
	case m.opts.writesBlocks() && structured > 0, !m.opts.writesBlocks() && structured != report.Calls:
		inSync = false // the client got calls in another form than the model wrote them
	}
	return ThreadState{InSync: inSync, PendingCalls: m.thread.pendingCalls}
}
