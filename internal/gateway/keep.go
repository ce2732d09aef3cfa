package gateway

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/conversation"
	"github.com/caddy-codex/caddy-codex/internal/failures"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/threads"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// keeping follows what a thread holds, so that its conversation can go on there.
type keeping struct {
	in      *threads.Conversations // of its process; nil: it keeps none
	chain   requestChain           // zero: the request has several choices
	schema  string                 // of the answer
	effort  string                 // of the turn; empty: the model's own
	tools   prompt.ToolNames
	resumed bool // the turn went on in a kept thread
	parked  bool // and had waited there for results
	spare   bool // the thread was started before the request

	settings *threads.Settings // of a thread that may be followed by a spare one; nil: of none

	restored  bool // the thread was given reasoning that was remembered
	forgetful bool // the provider has refused that

	announced *conversation.Announcement // of the thread; nil: there is none

	answer conversation.Answer
	after  conversation.Hash // of the history with the whole answer; zero: it is not to be kept
}

// requestChain is the history of a request with one choice. It is hashed once, and only if
// there is something to compare it with.
type requestChain struct {
	g     *Gateway
	x     *exchange
	plan  *prompt.Plan // nil: it is hashed, or there is nothing to hash
	chain *conversation.Chain
}

// get returns the chain, or nil if there is none or the history cannot be hashed.
func (r *requestChain) get() *conversation.Chain {
	if plan := r.plan; plan != nil {
		id := conversation.Identity{
			Site: strings.ToLower(r.x.r.Host), User: r.x.user, Thread: plan.Thread,
			AnyEffort: anyEffort(r.x.lease, plan),
		}
		var err error
		r.g.compute(r.x, r.x.body.Size(), func() { r.chain, err = conversation.NewChain(id, plan.History, plan.Turn.Input) })
		if err != nil {
			r.g.opts.Logger.Warn("a conversation is not kept", "error", err)
		}
		r.plan = nil
	}
	return r.chain
}

// anyEffort reports whether the model of a plan takes another effort in the same conversation, on
// every app-server.
func anyEffort(lease Lease, plan *prompt.Plan) bool {
	if plan.Thread.Config.Effort() == "" {
		return false
	}
	return !slices.ContainsFunc(lease.Members(), func(m Member) bool {
		return !m.Process.Model(plan.Thread.Model).Efforts
	})
}

// resume lets the turn of a choice go on in a thread that holds the history of its
// request but for the newest messages. It reports false if there is no such thread.
func (g *Gateway) resume(ctx context.Context, lease Lease, plan *prompt.Plan, c *choice) bool {
	if plan.Choices != 1 || len(plan.History) == 0 {
		return false
	}
	var kept conversation.Kept[*threads.Kept]
	var at conversation.Link
	lost := func() {}
	member, done, found := lease.Resume(func(all *threads.Conversations) (found bool) {
		chain := c.kept.chain.get()
		if chain == nil {
			return false
		}
		c.kept.in = all
		if kept, at, found = all.Claim(ctx, chain.Links); found {
			return true
		}
		if note, gone := all.Lost(chain.Links); gone {
			lost = note
		}
		return false
	})
	if !found {
		lost()
		c.kept.in = nil
		return false
	}
	kept.Thread.Thread.OnInput(c.decoded)
	err := kept.Thread.GoOn(ctx, plan, at)
	c.kept.in.Note(kept.Parked, err)
	if err != nil {
		g.opts.Logger.LogAttrs(ctx, slog.LevelDebug, "a conversation could not go on in its thread", slog.String("error", err.Error()))
		kept.Thread.Thread.Close(done)
		return false
	}
	c.thread, c.place = kept.Thread.Thread, kept.Thread.Place
	c.newMachine(kept.Thread.Spent)
	c.use(lease, member.Login, done)
	c.kept.resumed, c.kept.parked, c.repeatable = true, kept.Parked, true
	return true
}

// takeSpare returns a spare thread with the settings of the choice's. It returns nil if there
// is none.
func (k *keeping) takeSpare(settings *threads.Settings) *codexrpc.Thread {
	if k.in == nil {
		return nil
	}
	k.settings = settings
	thread := k.in.Spare(settings)
	k.spare = thread != nil
	return thread
}

// prepareNext starts a spare thread for a later request, now that the turn has begun.
func (k *keeping) prepareNext() {
	if k.settings != nil {
		k.in.Prepare(k.settings)
		k.settings = nil
	}
}

// reset forgets the thread: the turn starts on a fresh one.
func (k *keeping) reset() {
	k.withdraw()
	k.spare = false
	k.resumed, k.restored, k.answer, k.after = false, false, conversation.Answer{}, conversation.Hash{}
}

// threadIs names the thread for logs.
func (k *keeping) threadIs() string {
	switch {
	case k.restored:
		return "restored"
	case k.spare:
		return "prepared"
	case !k.resumed:
		return "new"
	case k.parked:
		return "resumed"
	}
	return "continued"
}

// fold adds outputs to what the client was given.
func (k *keeping) fold(outputs []turn.Output, mode turn.Mode) {
	if k.in == nil {
		return
	}
	for i := range outputs {
		switch out := &outputs[i]; {
		case out.Kind == turn.OutputText && out.Gap && out.Text == "":
			k.answer.Gap()
		case out.Kind == turn.OutputText:
			k.answer.Text(out.Text)
		case mode == turn.ModeXML: // calls are in the text
		case out.Kind == turn.OutputCallEnd:
			k.answer.Call(k.tools.Codex(out.Name), out.Text)
		}
	}
}

// announce says that the thread will be kept, before its client reads the end of the answer.
func (k *keeping) announce() {
	if k.in == nil || k.answer.Mixed() {
		return
	}
	if chain := k.chain.get(); chain != nil {
		k.withdraw()
		k.after = chain.After(&k.answer)
		k.announced = k.in.Announce(k.after)
	}
}

// withdraw ends the announcement of a thread that is not kept.
func (k *keeping) withdraw() {
	k.announced.End()
	k.announced = nil
}

// keep keeps the thread of a choice whose answer has reached its client, if the thread
// holds just that.
func (c *choice) keep(user string) {
	k := &c.kept
	rest := c.machine.Rest()
	if k.after == (conversation.Hash{}) || !rest.Whole {
		return
	}
	k.in.Memory.Remember(k.after, rest.Reasoning)
	size := k.chain.get().Size + k.answer.Size()
	kept := conversation.Kept[*threads.Kept]{
		Hash: k.after, User: user, Bytes: size,
		Thread: &threads.Kept{
			Thread: c.thread, Place: c.place, Spent: c.options.Spent.Add(c.usage),
			Waits: rest.Waits, Schema: k.schema, Effort: k.effort, Request: c.live.Request(),
		},
	}
	kept.Thread.Request.Since = time.Now()
	announced := k.announced
	c.thread, k.announced = nil, nil
	k.in.Put(kept, announced)
	c.closed() // the thread does not hold its process
}

// restore adds to the history of a plan the reasoning that is remembered of its answers.
// The plan itself, which other attempts use, does not change.
func (c *choice) restore(plan *prompt.Plan) *prompt.Plan {
	k := &c.kept
	if k.in == nil || k.forgetful {
		return plan
	}
	chain := k.chain.get()
	if chain == nil {
		return plan
	}
	history, added := k.in.Memory.Restore(chain.Links, plan.History)
	if added == 0 {
		return plan
	}
	k.restored, c.repeatable = true, true // the provider may refuse it
	with := *plan
	with.History = history
	return &with
}

// unrestorable reports whether a turn has failed because the provider refuses the
// reasoning that its thread was given. That is then forgotten.
func (k *keeping) unrestorable(failure error) bool {
	if !k.restored || failures.APIError(failure).Status != http.StatusBadRequest {
		return false
	}
	k.forget()
	return true
}

// forget forgets the reasoning that was restored.
func (k *keeping) forget() {
	k.restored, k.forgetful = false, true
	k.in.Memory.Forget(k.chain.get().Links)
}
