package pool

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/appserver"
	"github.com/caddy-codex/caddy-codex/internal/claims"
	"github.com/caddy-codex/caddy-codex/internal/conversation"
	"github.com/caddy-codex/caddy-codex/internal/loginstate"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// Server configures an app-server of a [Pool].
type Server struct {
	Config    appserver.Config
	Processes int                 // how many processes run; values below 1 mean 1
	Limits    conversation.Limits // for the threads that each process keeps
}

// Pool has the app-servers of one handler, and chooses one of them for each turn.
type Pool struct {
	configuration *Configuration
	members       []*member // in the order of the configuration; at least one
	keepsThreads  []bool    // by member: whether its process keeps threads for later requests

	mu sync.Mutex
	chooser
	candidates []candidate // what chooser compares: one candidate for each member
}

// Pool registers the processes of servers with the configuration, and returns their pool. It is
// called before Start. It fails if two servers have the same configuration.
func (c *Configuration) Pool(servers []Server, policy Policy) (*Pool, error) {
	p := &Pool{configuration: c, chooser: chooser{Policy: policy, servers: len(servers)}}
	for i, server := range servers {
		for ordinal := range max(1, server.Processes) {
			m := c.register(server.Config, ordinal, server.Limits)
			if slices.Contains(p.members, m) {
				return nil, fmt.Errorf("app_server %d is the same as one before it; for more processes there is the option processes", i+1)
			}
			p.members = append(p.members, m)
			p.keepsThreads = append(p.keepsThreads, server.Limits.Max > 0)
			p.candidates = append(p.candidates, candidate{server: i})
		}
	}
	return p, nil
}

// Processes returns the processes that run, in the order of the configuration.
func (p *Pool) Processes() (all []*Process) {
	for _, m := range p.members {
		if one := m.process.Load(); one != nil {
			all = append(all, one)
		}
	}
	return all
}

// Memory returns a budget for the memory that all requests together may use in the processes, in bytes:
// half of the sum of the processes' limits. The limit of a process is its MaxMemory or, without that, the
// parameter unlimited. Pools of the same processes share a budget until all have called release, so a
// reload does not double it.
func (p *Pool) Memory(unlimited int64) (memory *claims.Memory, release func()) {
	var keys []string
	var sum int64
	for _, m := range p.members {
		keys = append(keys, m.key)
		sum += cmp.Or(m.cfg.MaxMemory, unlimited)
	}
	slices.Sort(keys)
	key, memories := strings.Join(keys, " "), &p.configuration.supervisor.memories
	memory = memories.acquire(key, func() *claims.Memory { return claims.NewMemory(sum / 2) })
	return memory, func() { memories.release(key) }
}

// Lease returns a lease for a request. A reload does not stop the processes before the lease is
// released. The error is turn.ErrShutdown if the program exits.
func (p *Pool) Lease() (conversation.Lease, error) {
	if p.configuration.supervisor.opts.Exiting() {
		return nil, turn.ErrShutdown
	}
	p.configuration.addLeases(1)
	return &requestLease{Pool: p}, nil
}

type requestLease struct {
	*Pool
	released atomic.Bool
}

// Pick returns the member that is best for one more turn with a model, and a function that releases the
// member. It chooses a process in avoid only if avoid has all processes. Choosing a member and counting the
// turn are one step, so turns that start at the same time spread over the members.
func (l *requestLease) Pick(model string, avoid ...*appserver.Process) (conversation.Member, func()) {
	if len(l.members) == 1 {
		return l.acquire(0)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	index := l.choose(l.assessMembers(model, avoid))
	picked, done := l.acquire(index)
	if r := l.candidates[index].readiness; r == isResting || r == isSignedOut { // even the best login rests
		picked.Rests = picked.Login.Rests(model)
	}
	return picked, done
}

// Peek returns the member that Pick would choose, and a function that releases the member. Unlike
// Pick, it does not count as a choice.
func (l *requestLease) Peek(model string) (conversation.Member, func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.acquire(l.best(l.assessMembers(model, nil)))
}

// assessMembers returns the candidates for a model in their present state. The caller holds the lock.
func (l *requestLease) assessMembers(model string, avoid []*appserver.Process) []candidate {
	for i, m := range l.members {
		m.assess(&l.candidates[i], model, avoid)
	}
	return l.candidates
}

func (l *requestLease) acquire(index int) (conversation.Member, func()) {
	_, server := l.members[index].serving()
	return l.acquireFrom(index, server)
}

// acquireFrom acquires the process of server, which serves the member with this index, and counts a
// turn on it. The first call of the returned function undoes both.
func (l *requestLease) acquireFrom(index int, server *member) (conversation.Member, func()) {
	process := server.acquire()
	process.turns.Add(1)
	return l.describe(index, process), sync.OnceFunc(func() {
		process.turns.Add(-1)
		server.release()
	})
}

func (p *Pool) describe(index int, process *Process) conversation.Member {
	found := conversation.Member{Process: process.Process, Login: process.login.Login, Plan: process}
	if p.keepsThreads[index] {
		found.Threads = process.Conversations
	}
	return found
}

// Resume returns the member that has the thread of a conversation, and a function that releases the member.
// It passes one member after another to claim, until claim returns true because it has reserved
// the thread. If claim never returns true, found is false. If there are several members, Resume skips those
// whose login rests (is not used for a while after a failure). It also skips those where the Luna Reserve
// serves in place of the model.
func (l *requestLease) Resume(model string, claim func(conversation.Member) bool) (resumed conversation.Member, done func(), found bool) {
	for i, m := range l.members {
		p, server := m.serving()
		if p == nil || !l.keepsThreads[i] {
			continue
		}
		outlook, alone := p.login.For(model), len(l.members) == 1
		if (alone || outlook.Rests == nil) && !outlook.Reserve && claim(l.describe(i, p)) {
			resumed, done = l.acquireFrom(i, server)
			return resumed, done, true
		}
	}
	return conversation.Member{}, nil, false
}

// Len returns the number of members.
func (l *requestLease) Len() int { return len(l.members) }

// Logins returns how many logins the members have. The processes of an app_server share a login.
func (l *requestLease) Logins() int { return l.servers }

// Members returns the members whose processes run.
func (l *requestLease) Members() (all []conversation.Member) {
	for i, m := range l.members {
		if p, _ := m.serving(); p != nil {
			all = append(all, l.describe(i, p))
		}
	}
	return all
}

// Release ends the lease: a reload may then stop the processes that were not picked. Only the first
// call has an effect.
func (l *requestLease) Release() {
	if !l.released.Swap(true) {
		l.configuration.addLeases(-1)
	}
}

// The kinds of a member's readiness, best first.
const (
	isReady = iota
	isStarting
	isReserve      // the Luna Reserve serves in place of the model
	isExhausted    // the provider says that the model's meter has nothing left
	isFailing      // the provider limits its requests, or fails
	isUnresponsive // it does not answer, or its program is ending
	isWaiting      // it waits for its next start
	isResting      // the model's meter of its login is spent
	isSignedOut    // nobody is signed in, or the provider refuses the login or its workspace
	isFailed       // it will not become ready by itself
	isAvoided      // the caller of Pick wants to avoid it
)

// assess updates the candidate of a member for a model.
func (m *member) assess(c *candidate, model string, avoid []*appserver.Process) {
	c.readiness, c.readyAt, c.turns = isFailed, time.Time{}, 0
	p, _ := m.serving()
	if p == nil {
		return
	}
	c.turns = p.turns.Load()
	outlook := p.login.For(model)
	cause := loginstate.CauseOf(outlook.Rests)
	switch status := p.Status(); {
	case slices.Contains(avoid, p.Process):
		c.readiness = isAvoided
	case status.SignedOut, cause.OfLogin() && cause != loginstate.PlanSpent:
		c.readiness, c.readyAt = isSignedOut, outlook.Until
	case cause == loginstate.PlanSpent:
		c.readiness, c.readyAt = isResting, outlook.Until
	case status.State == appserver.StateReady && (time.Now().Before(outlook.Until) || status.AccountFailure != nil):
		c.readiness, c.readyAt = isFailing, outlook.Until // also if only a model is refused
	case status.State == appserver.StateReady && outlook.Reserve:
		c.readiness = isReserve
	case status.State == appserver.StateReady && outlook.Exhausted:
		c.readiness = isExhausted
	case status.State == appserver.StateReady:
		c.readiness = isReady
	case status.Final: // readiness stays isFailed, even during another start
	case status.State == appserver.StateStarting:
		c.readiness = isStarting
	case status.State == appserver.StateUnresponsive, status.State == appserver.StateStopping:
		c.readiness = isUnresponsive
	case status.State == appserver.StateBackoff:
		c.readiness, c.readyAt = isWaiting, status.RetryAt
	}
}
