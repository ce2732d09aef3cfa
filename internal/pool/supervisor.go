// Package pool runs the app-servers of all configurations and chooses one for each turn. It
// knows the health of their logins, and emits events of their starts and ends.
//
// A [Supervisor] has all app-servers. A [Configuration] names some of them, which run as long as
// the configuration or a turn holds them. A [Pool] has the app-servers over which the turns of one
// handler are spread. The package does not depend on Caddy.
package pool

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/claims"
)

// Supervisor runs the app-servers of all configurations of this program. Configurations that name
// the same app-server share its processes. A process stops when its last reference is released.
type Supervisor struct {
	opts         Options
	processes    shared[*Process]       // by the keys of members
	logins       shared[*login]         // by the keys of members without the ordinal
	memories     shared[*claims.Memory] // the results of Pool.Memory, by the joined keys of a pool's processes
	stopping     backgroundTasks        // processes that are being stopped in the background
	claimedHomes sync.Map               // the CODEX_HOMEs for which a sign-in is under way
	versions     sync.Map               // of Codex that were seen: each is warned of at most once

	mu                 sync.Mutex
	openConfigurations []*Configuration // the configurations after Open and before Release, the newest last
}

// Options connect a [Supervisor] with the program that it is a part of.
type Options struct {
	// Exiting reports whether the program has begun to exit. If it has, no turn starts.
	Exiting func() bool
	// Ready is called when a process has become ready, before the event that reports it.
	Ready func(*Process)
	// LimitsTold is called when Codex has told the limits of the plan of a process's login. It may be nil.
	LimitsTold func(*Process, *codexrpc.RateLimits)
}

// NewSupervisor returns a supervisor that runs nothing yet.
func NewSupervisor(opts Options) *Supervisor { return &Supervisor{opts: opts} }

// All returns the processes, ordered by id.
func (s *Supervisor) All() []*Process {
	all := s.processes.values()
	slices.SortFunc(all, func(a, b *Process) int { return strings.Compare(a.id, b.id) })
	return all
}

// Emit puts an event that belongs to no process into the queue of the first process, without
// waiting. If slow event handlers have filled the queue, or there is no process, the event is lost.
func (s *Supervisor) Emit(name string, data map[string]any) {
	if all := s.All(); len(all) > 0 {
		all[0].queue(event{name, data})
	}
}

// Stop stops all processes, even if turns run on them, and waits until they have ended.
func (s *Supervisor) Stop() {
	for _, p := range s.All() {
		s.stopping.Go(p.Stop)
	}
	s.stopping.Wait()
}

// Wait waits until no process is being stopped in the background.
func (s *Supervisor) Wait() { s.stopping.Wait() }

// NewConfiguration returns an empty configuration, which ends with ctx.
func (s *Supervisor) NewConfiguration(ctx context.Context, logger *slog.Logger, emit func(name string, data map[string]any)) *Configuration {
	return &Configuration{
		supervisor: s, ctx: ctx, logger: logger, emit: emit,
		members: make(map[string]*member), opened: make(chan struct{}),
	}
}

// Newest returns the newest open configuration, or nil if none is open.
func (s *Supervisor) Newest() *Configuration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.openConfigurations) == 0 {
		return nil
	}
	return s.openConfigurations[len(s.openConfigurations)-1]
}

// backgroundTasks are functions that run in the background. Unlike with a sync.WaitGroup, Go may be
// called while Wait waits: a turn may release its process while the program exits.
type backgroundTasks struct {
	mu      sync.Mutex
	running int
	idle    chan struct{} // closed when the last of these functions has ended
}

// Go runs task in the background.
func (s *backgroundTasks) Go(task func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running++; s.running == 1 {
		s.idle = make(chan struct{})
	}
	go func() {
		task()
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.running--; s.running == 0 {
			close(s.idle)
		}
	}()
}

// Wait waits until no function runs.
func (s *backgroundTasks) Wait() {
	for {
		s.mu.Lock()
		running, idle := s.running, s.idle
		s.mu.Unlock()
		if running == 0 {
			return
		}
		<-idle
	}
}
