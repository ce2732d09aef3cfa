package pool

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/appserver"
	"github.com/caddy-codex/caddy-codex/internal/conversation"
	"github.com/caddy-codex/caddy-codex/internal/loginstate"
	"github.com/caddy-codex/caddy-codex/internal/status"
)

// Process is an app-server that configurations and turns share. It emits events of its starts and ends.
type Process struct {
	*appserver.Process
	// Conversations are the threads that the process keeps.
	Conversations *conversation.Threads

	supervisor *Supervisor
	creator    *member // the member whose acquire made the process
	id         string
	turns      atomic.Int64 // how many turns run on the process, of all configurations
	login      *login       // shared by all processes of the app_server

	mu        sync.Mutex
	holders   []*member // the members that use the process, one of each configuration; the last one's log and limits apply
	hadHolder bool      // addHolder was called

	seen seenCodex // only reportCodex uses it

	tracker  stateTracker
	eventsMu sync.Mutex    // guards events
	events   chan event    // nil before the start and after the end
	done     chan struct{} // closed when emitEvents has ended
}

func newProcess(m *member) *Process {
	s := m.configuration.supervisor
	loginKey, _, _ := strings.Cut(m.key, "/") // without the ordinal: all processes of an app_server have the same login
	p := &Process{
		Process: appserver.New(m.cfg, m.logger), supervisor: s, creator: m, id: idOf(m.key),
		login: s.acquireLogin(loginKey), done: make(chan struct{}),
	}
	p.Conversations = conversation.NewThreads(m.threadLimits, p.isMemoryScarce)
	return p
}

// ID returns the name of the process in events, metrics and the admin API.
func (p *Process) ID() string { return p.id }

// Config returns the configuration of the app-server.
func (p *Process) Config() appserver.Config { return p.creator.cfg }

// Login returns what is known of the process's login. Other processes may have the same login.
func (p *Process) Login() *loginstate.Login { return p.login.Login }

// LoginID returns a name for the account of the process's login, the same at all nodes. If the account is not
// known, it is the id of the process.
func (p *Process) LoginID() string {
	if limits := p.login.Limits(); limits != nil && limits.Account != "" {
		return idOf(limits.Account)
	}
	return p.id
}

func (p *Process) isMemoryScarce() bool {
	limit := p.creator.cfg.MaxMemory
	return limit > 0 && p.Status().Memory > limit/2
}

// emitter returns the configuration that emits the events: the newest configuration that holds the process
// and has not ended, or else the creator's configuration if it is about to hold the process, or else the
// newest open configuration. It returns nil if the program is exiting.
func (p *Process) emitter() *Configuration {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range slices.Backward(p.holders) {
		if !m.configuration.ended() {
			return m.configuration
		}
	}
	if !p.hadHolder && !p.creator.configuration.ended() {
		return p.creator.configuration // the creator is about to become the first holder
	}
	return p.supervisor.Newest()
}

// addHolder adds a holder, whose log and limits the process then uses.
func (p *Process) addHolder(m *member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holders, p.hadHolder = append(p.holders, m), true
	p.applySettings(m)
}

func (p *Process) currentHolders() []*member {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.holders)
}

// removeHolder undoes addHolder. The process then uses the log and the limits of the last remaining
// holder: the log of m may be closed, for example if the configuration of m has failed to start.
func (p *Process) removeHolder(m *member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holders = slices.DeleteFunc(p.holders, func(other *member) bool { return other == m })
	if n := len(p.holders); n > 0 {
		p.applySettings(p.holders[n-1])
	}
}

func (p *Process) applySettings(m *member) {
	p.SetLogger(m.logger)
	p.Conversations.SetLimits(m.threadLimits)
}

// end undoes what acquire does for the first reference.
func (p *Process) end() {
	p.Stop()
	p.Conversations.Close()
	p.supervisor.releaseLogin(p.login)
	p.endEvents()
}

// statusTimeout bounds the requests to all processes for the limits of their plans.
const statusTimeout = 2 * time.Second

// Statuses returns the statuses of processes. It asks all processes at the same time for the limits
// of their plans. It waits for the limits until ctx ends, but at most for statusTimeout.
func Statuses(ctx context.Context, processes []*Process) []status.AppServer {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	found := make([]status.AppServer, len(processes))
	var asking sync.WaitGroup
	for i, p := range processes {
		asking.Go(func() { found[i] = p.status(ctx) })
	}
	asking.Wait()
	return found
}

func (p *Process) status(ctx context.Context) status.AppServer {
	windows := p.Windows(ctx)
	p.RateLimits(ctx, limitsPause)
	one := status.AppServer{
		ID: p.id, Home: p.creator.cfg.Home, Status: p.Status(), Windows: windows,
		Login: loginStatusOf(p.login.Login), Conversations: p.Conversations.Stats(),
	}
	if command := p.creator.cfg.Command; len(command) > 0 {
		one.Program = filepath.Base(command[0])
	}
	if note := codexrpc.Untested(one.Version); note != "" {
		one.Notes = append(one.Notes, note)
	}
	if p.ProgramReplaced() {
		one.Notes = append(one.Notes, "the program on disk is another one than runs; `caddy codex restart` starts it")
	}
	one.Login.SignIn = p.login.signIn.status()
	if one.Strict {
		one.Instructions = string(conversation.InstructionsAppend)
	}
	return one
}

func loginStatusOf(login *loginstate.Login) status.Login {
	now := login.Status()
	s := status.Login{State: string(now.State), Cause: string(now.Cause), Reason: now.Cause.Advice(), ResetsAt: now.ResetsAt.UTC(), RestsUntil: now.RestsUntil.UTC()}
	if limits := login.Limits(); limits != nil {
		s.Plan, s.Allowed, s.Credits, s.ResetCredits, s.LimitsAt = limits.Plan, limits.Allowed, limits.Credits, limits.ResetCredits, limits.At.UTC()
		for i := range limits.Meters {
			meter := &limits.Meters[i]
			one := status.Meter{ID: meter.ID, Name: meter.Name, Spent: login.Spent(meter), Windows: []status.Window{}}
			for _, w := range meter.Windows() {
				one.Windows = append(one.Windows, status.Window{Window: w.Name(), UsedPercent: w.UsedPercent, ResetsAt: w.ResetsAt.UTC(), Over: w.Over(time.Now())})
			}
			s.Meters = append(s.Meters, one)
		}
	}
	return s
}
