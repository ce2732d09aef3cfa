package pool

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc/appserver"
	"github.com/caddy-codex/caddy-codex/internal/conversation"
	"github.com/caddy-codex/caddy-codex/internal/gateway"
	"github.com/caddy-codex/caddy-codex/internal/loginstate"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// Server is an app-server among which a [Pool] chooses.
type Server struct {
	Config    appserver.Config
	Processes int                 // how many run; less than 1: one
	Limits    conversation.Limits // of the threads that each keeps
}

// Pool is the app-servers of one handler.
type Pool struct {
	of      *Configuration
	members []*member // in the order of the configuration; at least one
	keeps   []bool    // whether conversations are kept on each process

	mu sync.Mutex
	chooser
	candidates []candidate // the members
}

// SameError means that two servers of a pool have the same configuration.
type SameError struct {
	Index int // of the second one, from 0
}

func (e *SameError) Error() string {
	return fmt.Sprintf("app-server %d is the same as one before it", e.Index+1)
}

// Pool registers the processes of servers with the configuration, and returns their pool. It is
// called before Start. The error is a [*SameError], for two servers that are the same.
func (c *Configuration) Pool(servers []Server, policy Policy) (*Pool, error) {
	p := &Pool{of: c, chooser: chooser{Policy: policy, servers: len(servers)}}
	for i, server := range servers {
		for ordinal := range max(1, server.Processes) {
			m := c.register(server.Config, ordinal, server.Limits)
			if slices.Contains(p.members, m) {
				return nil, &SameError{i}
			}
			p.members = append(p.members, m)
			p.keeps = append(p.keeps, server.Limits.Max > 0)
			p.candidates = append(p.candidates, candidate{server: i})
		}
	}
	return p, nil
}

// Processes returns the processes that run, in the order of the configuration.
func (p *Pool) Processes() (all []*Process) {
	for _, m := range p.members {
		if one := m.current(); one != nil {
			all = append(all, one)
		}
	}
	return all
}

// Memory returns the budget for the memory that requests use in the processes. The budget is half
// of the sum of the processes' memory limits. The parameter unlimited is the limit, in bytes, that
// is assumed for a process without one. Pools of the same processes share one budget, so a reload
// does not double it. The budget ends when each pool has called release.
func (p *Pool) Memory(unlimited int64) (memory *gateway.Memory, release func()) {
	var keys []string
	var sum int64
	for _, m := range p.members {
		keys = append(keys, m.key)
		sum += cmp.Or(m.cfg.MaxMemory, unlimited)
	}
	slices.Sort(keys)
	key, memories := strings.Join(keys, " "), &p.of.supervisor.memories
	memory = memories.acquire(key, func() *gateway.Memory { return gateway.NewMemory(sum / 2) })
	return memory, func() { memories.release(key) }
}

// Lease keeps a reload from stopping the processes until the request has picked one.
func (p *Pool) Lease() (conversation.Lease, error) {
	if p.of.supervisor.opts.Exiting() {
		return nil, turn.ErrShutdown
	}
	p.of.enter()
	return &leased{Pool: p}, nil
}

// leased is the lease of a request.
type leased struct {
	*Pool
	released atomic.Bool
	picked   atomic.Bool
	first    use // the use of the first pick: a field saves an allocation
}

// Pick returns the member that is best for one more turn, and a function that releases it. It
// chooses a process in avoid only if there is no other. Choosing and counting are one step, so that
// turns that start at the same time spread over the members.
func (l *leased) Pick(avoid ...*appserver.Process) (conversation.Member, func()) {
	if len(l.members) == 1 {
		return l.take(0)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.choose(l.compared(avoid))
	picked, done := l.take(at)
	if l.candidates[at].state >= isResting {
		picked.Rests = picked.Login.Failure()
	}
	return picked, done
}

// Peek returns the member that Pick would choose, and a function that releases it. Unlike Pick, it
// does not count a turn in the marks of the chooser.
func (l *leased) Peek() (conversation.Member, func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.take(l.best(l.compared(nil)))
}

// compared returns the members as they are now. The caller holds the lock.
func (l *leased) compared(avoid []*appserver.Process) []candidate {
	for i, m := range l.members {
		m.assess(&l.candidates[i], avoid)
	}
	return l.candidates
}

// take takes a reference to the process of a member for one turn.
func (l *leased) take(at int) (conversation.Member, func()) {
	process, done := l.use(l.members[at])
	return l.describe(at, process), done
}

// describe returns what a turn needs of the process of a member.
func (p *Pool) describe(at int, of *Process) conversation.Member {
	found := conversation.Member{Process: of.Process, Login: of.login.Login}
	if p.keeps[at] {
		found.Threads = of.Conversations
	}
	return found
}

// Resume returns the member that has the thread of a conversation, and a function that releases it.
// It passes the threads of each member to claim, until claim returns true: then claim has reserved
// the conversation. If the pool has several members, Resume skips those whose login rests (is not
// used for a while after a failure).
func (l *leased) Resume(claim func(*conversation.Threads) bool) (resumed conversation.Member, done func(), found bool) {
	for i, m := range l.members {
		p := m.current()
		if p == nil || !l.keeps[i] {
			continue
		}
		_, rests := p.login.Rests()
		if alone := len(l.members) == 1; (alone || !rests) && claim(p.Conversations) {
			resumed, done = l.take(i)
			return resumed, done, true
		}
	}
	return conversation.Member{}, nil, false
}

// Len returns the number of members.
func (l *leased) Len() int { return len(l.members) }

// Members returns the members whose processes run.
func (l *leased) Members() (all []conversation.Member) {
	for i, m := range l.members {
		if p := m.current(); p != nil {
			all = append(all, l.describe(i, p))
		}
	}
	return all
}

// Release ends the lease: a reload may stop the processes that were not picked. Further calls do
// nothing.
func (l *leased) Release() {
	if !l.released.Swap(true) {
		l.of.leave()
	}
}

// use takes a reference to the process for one turn.
func (l *leased) use(m *member) (*Process, func()) {
	process, u := m.acquire(), &l.first
	process.turns.Add(1)
	if l.picked.Swap(true) {
		u = new(use)
	}
	u.member, u.process = m, process
	return process, u.end
}

// use is the use of a process by one turn.
type use struct {
	member  *member
	process *Process
	ended   atomic.Bool
}

// end releases the process, once.
func (u *use) end() {
	if !u.ended.Swap(true) {
		u.process.turns.Add(-1)
		u.member.letGo()
	}
}

// The kinds of readiness, best first.
const (
	isReady = iota
	isStarting
	isFaltering    // its provider limits it by the minute, or fails; it is used all the same if no other is ready
	isUnresponsive // or it has just ended
	isWaiting      // for its next start
	isResting      // its login is spent
	isSignedOut    // its login rests, too, but does not come back by itself
	isOut          // it will not become ready by itself
	isAvoided
)

// assess sets the fields of a candidate that change while the program runs: state, due and turns.
// avoid has the processes that should not get the next turn.
func (m *member) assess(f *candidate, avoid []*appserver.Process) {
	f.state, f.due, f.turns = isOut, time.Time{}, 0
	p := m.current()
	if p == nil {
		return
	}
	f.turns = p.turns.Load()
	until, rests := p.login.Rests()
	login := p.login.Status()
	switch status := p.Status(); {
	case slices.Contains(avoid, p.Process):
		f.state = isAvoided
	case status.SignedOut, rests && login.State == loginstate.SignedOut:
		f.state, f.due = isSignedOut, until
	case login.Falters && status.State == appserver.StateReady:
		f.state, f.due = isFaltering, until
	case rests && !login.Falters:
		f.state, f.due = isResting, until
		if !login.ResetsAt.IsZero() {
			f.due = login.ResetsAt
		}
	case status.State == appserver.StateReady:
		f.state = isReady
	case status.Final: // it stays isOut, also while the next start is tried
	case status.State == appserver.StateStarting:
		f.state = isStarting
	case status.State == appserver.StateUnresponsive, status.State == appserver.StateStopping:
		f.state = isUnresponsive
	case status.State == appserver.StateBackoff:
		f.state, f.due = isWaiting, status.RetryAt
	}
}

// Interface guards
var (
	_ conversation.Upstream = (*Pool)(nil)
	_ conversation.Lease    = (*leased)(nil)
)
