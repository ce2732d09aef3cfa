package conversation

import (
	"slices"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// effortMayVary reports whether turns may have different reasoning efforts: the plan has an effort, and
// every app-server can change the effort within a conversation with the plan's model.
func effortMayVary(lease Lease, plan *prompt.Plan) bool {
	return plan.Thread.Config.Effort() != "" && !slices.ContainsFunc(lease.Members(), func(m Member) bool {
		return !m.Process.Model(plan.Thread.Model).Efforts
	})
}

// recordOutputs records in t.answer what the client gets, if the thread may be kept.
func (t *Turn) recordOutputs(outputs []turn.Output) {
	if t.current.threads == nil {
		return
	}
	for i := range outputs {
		switch out := &outputs[i]; {
		case out.Kind == turn.OutputText && out.Gap && out.Text == "":
			t.answer.Gap()
		case out.Kind == turn.OutputText:
			t.answer.Text(out.Text)
		case t.request.Options.OutputMode == turn.ModeXML: // the calls are a part of the text
		case out.Kind == turn.OutputCall:
			t.answer.Call(t.tools.Codex(out.Name), out.Text)
		}
	}
}

// announce announces that the thread will soon be kept, if it can be kept. announce is called before the
// client gets the end of the answer, since the client's next request may follow at once.
func (t *Turn) announce() {
	if t.current.threads == nil || t.answer.mixed || t.chain == nil || t.request.Options.Summary {
		return
	}
	t.historyHash = t.chain.After(&t.answer)
	t.answer.release()
	t.withdraw = t.current.threads.announce(t.historyHash)
}

// keep keeps the thread for the next request. It does nothing if announce has found that the thread
// cannot be kept, or if the thread differs from what the client got.
func (t *Turn) keep() {
	state := t.request.Machine.ThreadState()
	if t.withdraw == nil || t.current.thread == nil || !state.InSync {
		return
	}
	current := t.current
	kept := &keptThread{
		hash: t.historyHash, user: t.request.User, size: t.chain.Size + t.answer.size,
		thread: current.thread, place: current.place, usage: current.usageBefore.Add(t.usage),
		context: t.request.Machine.Context(), pendingCalls: state.PendingCalls, schema: t.schema, effort: t.effort, request: t.request.Live.Request(),
	}
	kept.request.Since = time.Now()
	current.threads.keepWhenIdle(kept, t.withdraw)
	t.current.thread, t.withdraw = nil, nil
	t.request.Memory.Release()
	current.onClose() // a kept thread does not count as a use of its process
}
