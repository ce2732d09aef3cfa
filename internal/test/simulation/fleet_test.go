package simulation

import (
	"cmp"
	"slices"
	"sync"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/appserver"
	"github.com/caddy-codex/caddy-codex/internal/conversation"
	"github.com/caddy-codex/caddy-codex/internal/loginstate"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// fleet holds processes as caddymodule: each ends with its last configuration and last turn.
type fleet struct {
	run *run

	mu        sync.Mutex
	processes map[string]*process
	all       []*process
	stops     sync.WaitGroup
}

// process is a process with a number of references.
type process struct {
	*appserver.Process
	refs, turns   int
	login         *loginstate.Login // nil: no login is followed
	conversations *conversation.Threads
}

// acquire takes a reference, and starts the process if there is none.
func (f *fleet) acquire(key string) *process {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.processes[key]
	if p == nil {
		p = &process{Process: appserver.New(appserver.Config{
			Start: func() (*appserver.Program, error) { return f.run.start(serverOf(key)) }, Client: codexrpc.ClientInfo{Name: "simulation"}, Models: []appserver.Model{{Slug: longModel, Window: f.run.plan.Config.Window}},
		}, f.run.logger)}
		if f.run.plan.Meters != nil {
			p.login = new(loginstate.Login)
			p.login.Learn(meteredLimits())
		}
		p.conversations = conversation.NewThreads(f.run.plan.Config.Keep, func() bool { return false })
		p.SetObserver(func(appserver.Status) { p.conversations.Follow(p.Serving()) })
		p.Start()
		f.processes[key] = p
		f.all = append(f.all, p)
	}
	p.refs++
	return p
}

// letGo releases a reference.
func (f *fleet) letGo(key string, p *process) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p.refs--; p.refs == 0 {
		delete(f.processes, key)
		f.stops.Go(func() {
			p.Stop()
			p.conversations.Close()
		})
	}
}

func (f *fleet) left() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.processes)
}

// pool holds the app-servers of one configuration.
type pool struct {
	fleet *fleet
	keys  []string

	mu       sync.Mutex
	members  []*process
	next     int
	holders  int  // the configuration and requests that have not picked a process yet
	released bool // the last holder has gone, though a late request may hold the pool again
}

func (f *fleet) pool(keys []string) *pool {
	p := &pool{fleet: f, keys: keys, holders: 1}
	for _, key := range keys {
		p.members = append(p.members, f.acquire(key))
	}
	return p
}

// Lease implements conversation.Upstream.
func (p *pool) Lease() (conversation.Lease, error) {
	if p.fleet.run.exit.Err() != nil {
		return nil, turn.ErrShutdown
	}
	p.mu.Lock()
	p.holders++
	p.mu.Unlock()
	p.fleet.run.leases.Add(1)
	return &lease{pool: p, release: sync.OnceFunc(func() {
		p.fleet.run.leases.Add(-1)
		p.release()
	})}, nil
}

// release releases the processes with the last holder, once: a request that came before a reload may take
// its lease after it.
func (p *pool) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.holders--; p.holders > 0 || p.released {
		return
	}
	p.released = true
	for i, m := range p.members {
		p.fleet.letGo(p.keys[i], m)
	}
}

// lease is a request's hold on a pool.
type lease struct {
	*pool
	release func()
}

// Release implements conversation.Lease.
func (l *lease) Release() { l.release() }

// Resume implements conversation.Lease.
func (l *lease) Resume(model string, claim func(conversation.Member) bool) (conversation.Member, func(), bool) {
	for i, m := range l.members {
		if alone := len(l.members) == 1; (alone || m.rests(model) == nil) && claim(m.member()) {
			resumed, done := l.use(i)
			return resumed, done, true
		}
	}
	return conversation.Member{}, nil, false
}

// Len implements conversation.Lease.
func (p *pool) Len() int { return len(p.members) }

// Logins implements conversation.Lease. Each process has its own.
func (p *pool) Logins() int { return len(p.members) }

// member returns what a turn needs of a process.
func (p *process) member() conversation.Member {
	return conversation.Member{Process: p.Process, Login: cmp.Or(p.login, new(loginstate.Login)), Threads: p.conversations}
}

// rests returns why no turn with a model is to use the process's login; nil: one may.
func (p *process) rests(model string) error {
	if p.login == nil {
		return nil
	}
	return p.login.Rests(model)
}

// Members implements conversation.Lease.
func (p *pool) Members() (all []conversation.Member) {
	for _, m := range p.members {
		all = append(all, m.member())
	}
	return all
}

// Pick implements conversation.Lease. It picks the process with the fewest turns of those
// that are ready, or else starting. Those whose login rests for the model come last.
func (p *pool) Pick(model string, avoid ...*appserver.Process) (conversation.Member, func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.fleet
	best, worst := -1, 0
	for i := range p.members {
		at := (p.next + i) % len(p.members)
		if unfit := p.members[at].unfit(f, model, avoid); best < 0 || unfit < worst {
			best, worst = at, unfit
		}
	}
	p.next = best + 1
	picked, done := p.use(best)
	if len(p.members) > 1 {
		picked.Rests = p.members[best].rests(model)
	}
	return picked, done
}

// Peek implements conversation.Lease.
func (p *pool) Peek(model string) (conversation.Member, func()) { return p.Pick(model) }

// use takes a reference to a process for one turn.
func (p *pool) use(at int) (conversation.Member, func()) {
	f := p.fleet
	chosen, key := p.members[at], p.keys[at]
	f.mu.Lock()
	chosen.refs++
	chosen.turns++
	f.mu.Unlock()
	f.run.turns.Add(1)
	return chosen.member(), sync.OnceFunc(func() {
		f.mu.Lock()
		chosen.turns--
		f.mu.Unlock()
		f.run.turns.Add(-1)
		f.letGo(key, chosen)
	})
}

// unfit returns how unsuitable a process is for another turn.
func (p *process) unfit(f *fleet, model string, avoid []*appserver.Process) int {
	f.mu.Lock()
	turns := p.turns
	f.mu.Unlock()
	switch state := p.Status().State; {
	case slices.Contains(avoid, p.Process):
		return 4000
	case p.rests(model) != nil:
		return 2500
	case state == appserver.StateReady:
		return turns
	case state == appserver.StateStarting:
		return 1000 + turns
	case state == appserver.StateUnresponsive, state == appserver.StateStopping:
		return 1500 + turns
	case state == appserver.StateBackoff:
		return 2000
	}
	return 3000
}
