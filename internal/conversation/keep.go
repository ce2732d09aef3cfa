package conversation

import (
	"slices"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// anyEffort reports whether the effort may change within a conversation with the plan's model, on
// every app-server.
func anyEffort(lease Lease, plan *prompt.Plan) bool {
	if plan.Thread.Config.Effort() == "" {
		return false
	}
	return !slices.ContainsFunc(lease.Members(), func(m Member) bool {
		return !m.Process.Model(plan.Thread.Model).Efforts
	})
}

// Said adds outputs to what the client was given. mode is the form in which the client reads tool
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

// Announce announces that the thread will be kept. It is called before the client reads the end of
// the answer.
func (s *Session) Announce() {
	if s.now.in == nil || s.said.Mixed() || s.chain == nil {
		return
	}
	s.withdraw()
	s.after = s.chain.After(&s.said)
	s.announced = s.now.in.coming.announce(s.after)
}

// withdraw ends the announcement of a thread that is not kept.
func (s *Session) withdraw() {
	s.announced.end()
	s.announced = nil
}

// Keep keeps the thread for the next request, if the thread holds exactly the answer that the
// client got. It is called once the answer has reached the client. rest is the state of the thread,
// used is what the turn has cost.
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

// restore returns a copy of the plan whose history has the remembered reasoning of its answers, or
// nil if none is remembered. The plan itself, which other attempts use, does not change.
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

// forget removes from the memory the reasoning of this history, which Codex or the provider has
// refused.
func (s *Session) forget() {
	s.now.reasoned, s.plain = false, true
	s.now.in.memory.Forget(s.chain.Links)
}
