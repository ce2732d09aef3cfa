package conversation

import (
	"slices"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// anyEffort reports whether turns of one conversation may have different reasoning efforts. They
// may if the plan has an effort, and every app-server lets a thread change its effort with the
// plan's model.
func anyEffort(lease Lease, plan *prompt.Plan) bool {
	if plan.Thread.Config.Effort() == "" {
		return false
	}
	return !slices.ContainsFunc(lease.Members(), func(m Member) bool {
		return !m.Process.Model(plan.Thread.Model).Efforts
	})
}

// Said records outputs that the client has got. mode is the form in which the client reads tool
// calls.
func (s *Session) Said(outputs []turn.Output, mode turn.Mode) {
	if s.now.in == nil {
		return
	}
	for i := range outputs {
		switch out := &outputs[i]; {
		case out.Kind == turn.OutputText && out.Gap && out.Text == "":
			s.said.Gap()
		case out.Kind == turn.OutputText:
			s.said.Text(out.Text)
		case mode == turn.ModeXML: // calls are in the text
		case out.Kind == turn.OutputCallEnd:
			s.said.Call(s.tools.Codex(out.Name), out.Text)
		}
	}
}

// Announce announces that the thread will soon be kept for the next request. It is called before
// the client gets the end of the answer, since the client may then send its next request at once.
func (s *Session) Announce() {
	if s.now.in == nil || s.said.Mixed() || s.chain == nil {
		return
	}
	s.withdraw()
	s.after = s.chain.After(&s.said)
	s.announced = s.now.in.coming.announce(s.after)
}

// withdraw ends the announcement of the thread, since the thread will not be kept.
func (s *Session) withdraw() {
	s.announced.end()
	s.announced = nil
}

// Keep keeps the thread for the next request, if the thread has exactly the answer that the client
// got. It is called when the client has got the whole answer. rest describes the thread after the
// turn, and used counts the tokens of the turn.
func (s *Session) Keep(rest turn.Rest, used codexrpc.Usage) {
	if s.after == (Hash{}) || !rest.Whole {
		return
	}
	now := s.now
	now.in.memory.Remember(s.after, rest.Reasoning)
	one := &kept{
		hash: s.after, user: s.request.User, size: s.chain.Size + s.said.Size(),
		thread: now.thread, place: now.place, spent: now.spent.Add(used),
		waits: rest.Waits, schema: s.schema, effort: s.effort, request: s.request.Live.Request(),
	}
	one.request.Since = time.Now()
	announced := s.announced
	s.now.thread, s.announced = nil, nil
	now.in.put(one, announced)
	now.closed() // a kept thread does not hold its process
}

// restore returns a copy of the plan with reasoning from the memory in its history, or nil if the
// memory has no reasoning of these answers. It does not change the plan itself, since other
// attempts use the plan.
func (s *Session) restore(plan *prompt.Plan) *prompt.Plan {
	if s.now.in == nil || s.plain || s.chain == nil {
		return nil
	}
	history, added := s.now.in.memory.Restore(s.chain.Links, plan.History)
	if added == 0 {
		return nil
	}
	with := *plan
	with.History = history
	return &with
}

// forget removes the reasoning of this history from the memory, because Codex or the provider has
// refused it.
func (s *Session) forget() {
	s.now.reasoned, s.plain = false, true
	s.now.in.memory.Forget(s.chain.Links)
}
