package conversation

import (
	"slices"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// effortMayVary reports whether the turns of a conversation may have different reasoning efforts.
// Two conditions must hold: the plan has an effort, and every app-server can change the effort
// within a conversation that uses the plan's model.
func effortMayVary(lease Lease, plan *prompt.Plan) bool {
	if plan.Thread.Config.Effort() == "" {
		return false
	}
	return !slices.ContainsFunc(lease.Members(), func(m Member) bool {
		return !m.Process.Model(plan.Thread.Model).Efforts
	})
}

// RecordOutputs records in s.answer the outputs that the client gets. If the thread will not be
// kept, RecordOutputs does nothing. mode is the form in which the client gets tool calls.
func (s *Session) RecordOutputs(outputs []turn.Output, mode turn.Mode) {
	if s.current.threads == nil {
		return
	}
	for i := range outputs {
		switch out := &outputs[i]; {
		case out.Kind == turn.OutputText && out.Gap && out.Text == "":
			s.answer.Gap()
		case out.Kind == turn.OutputText:
			s.answer.Text(out.Text)
		case mode == turn.ModeXML: // the calls are a part of the text
		case out.Kind == turn.OutputCall:
			s.answer.Call(s.tools.Codex(out.Name), out.Text)
		}
	}
}

// Announce announces that the thread will soon be kept for the next request, if it can be kept. It
// is called before the client gets the end of the answer, because the client may send its next
// request as soon as it has that end.
func (s *Session) Announce() {
	if s.current.threads == nil || s.answer.Mixed() || s.chain == nil {
		return
	}
	s.withdrawAnnouncement()
	s.historyHash = s.chain.After(&s.answer)
	s.announced = s.current.threads.announce(s.historyHash)
}

// withdrawAnnouncement ends the announcement of the thread, if there is one.
func (s *Session) withdrawAnnouncement() {
	if s.announced != nil {
		s.current.threads.withdraw(s.historyHash, s.announced)
		s.announced = nil
	}
}

// Keep keeps the thread for the next request. It does nothing if Announce has found that the thread
// cannot be kept, or if the thread differs from what the client got. It is called when the client
// has got the whole answer. state describes the thread after the turn. usage counts the tokens of
// the turn.
func (s *Session) Keep(state turn.ThreadState, usage codexrpc.Usage) {
	if s.historyHash == (Hash{}) || !state.InSync {
		return
	}
	current := s.current
	kept := &keptThread{
		hash: s.historyHash, user: s.request.User, size: s.chain.Size + s.answer.Size(),
		thread: current.thread, place: current.place, usage: current.usageBefore.Add(usage),
		pendingCalls: state.PendingCalls, schema: s.schema, effort: s.effort, request: s.request.Live.Request(),
	}
	kept.request.Since = time.Now()
	announced := s.announced
	s.current.thread, s.announced = nil, nil
	current.threads.keepWhenIdle(kept, announced)
	current.memory.Release()
	current.onClose() // a kept thread does not count as a use of its process
}
