package caddymodule

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/codexrpc/appserver"
	"github.com/caddy-codex/caddy-codex/internal/conversation"
	"github.com/caddy-codex/caddy-codex/internal/threads"
)

// processes is the pool of all app-servers of this Caddy, by the keys of members. Each
// configuration that names a process, and each turn that runs on it, holds a reference.
// The process is stopped when the last reference is released.
var processes = caddy.NewUsagePool()

// stopping are the processes that are being stopped in the background.
var stopping stops

func init() {
	// Caddy waits neither for the processes nor for background responses, which have no request.
	caddy.OnExit(func(ctx context.Context) {
		exit.begin()
		runningResponses.Wait(ctx) // each ends with its drain timeout
		stopAll()
	})
}

// stopAll stops all processes, also those of running requests, and waits until they have ended.
func stopAll() {
	for _, p := range allProcesses() {
		stopping.Go(p.Stop)
	}
	stopping.Wait()
}

// allProcesses returns the processes of the pool, ordered by id.
func allProcesses() (all []*process) {
	processes.Range(func(_, value any) bool {
		if p, ok := value.(*process); ok { // not ok: it is being created
			all = append(all, p)
		}
		return true
	})
	slices.SortFunc(all, func(a, b *process) int { return strings.Compare(a.id, b.id) })
	return all
}

// process is a pooled app-server. It emits events of its starts and ends.
type process struct {
	*appserver.Process
	creator *member
	id      string       // in events, metrics and the admin API
	turns   atomic.Int64 // that run on it, of all configurations

	conversations *threads.Conversations
	login         *login // that of all processes of its app_server

	mu      sync.Mutex
	holders []*member // configurations; the process logs to the last one's log
	held    bool      // there was a holder

	tracker stateTracker
	posting sync.Mutex    // guards events
	events  chan event    // nil before the start and after the end
	done    chan struct{} // closed after the last event

	asking chan struct{} // a semaphore: one goroutine asks for limits, the others wait for its answer
	limits *codexrpc.RateLimits
	asked  time.Time
}

// newProcess returns the process of a member. It is not started.
func newProcess(m *member) *process {
	p := &process{
		Process: appserver.New(m.cfg, m.logger), creator: m, id: processID(m.key),
		login: acquireLogin(m.loginKey()), asking: make(chan struct{}, 1), done: make(chan struct{}),
	}
	p.conversations = threads.NewConversations(m.conversations, p.login.memory, p.scarce)
	return p
}

// start starts the process, and what follows it.
func (p *process) start() {
	p.events = make(chan event, maxEvents)
	p.SetObserver(p.observe)
	go p.emitEvents(p.events)
	p.Start()
}

// scarce reports whether the process uses more than half of the memory that it may use.
func (p *process) scarce() bool {
	limit := p.creator.cfg.MaxMemory
	return limit > 0 && p.Status().Memory > limit/2
}

// emitter returns the app for events: that of the last holder whose configuration is not closed.
func (p *process) emitter() *App {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range slices.Backward(p.holders) {
		if !m.app.isClosed() {
			return m.app
		}
	}
	if !p.held && !p.creator.app.isClosed() {
		return p.creator.app // it is about to hold the process
	}
	return startedApps.last() // nil: Caddy is exiting
}

// hold adds a configuration to the holders. The process uses its log from now on.
func (p *process) hold(m *member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holders, p.held = append(p.holders, m), true
	p.follow(m)
}

// release undoes hold. A configuration that failed to start has closed its log, so the
// process returns to the log of the holder before it.
func (p *process) release(m *member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holders = slices.DeleteFunc(p.holders, func(other *member) bool { return other == m })
	if n := len(p.holders); n > 0 {
		p.follow(p.holders[n-1])
	}
}

// follow uses the log and the limits of a holder.
func (p *process) follow(m *member) {
	p.SetLogger(m.logger)
	p.conversations.SetLimits(m.conversations)
}

// logger returns the log of the last holder, or of the creator.
func (p *process) logger() *slog.Logger {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.holders); n > 0 {
		return p.holders[n-1].logger
	}
	return p.creator.logger
}

// Destruct stops the process in the background, since it may be called by the request
// that loads a configuration. Caddy's exit waits for it.
func (p *process) Destruct() error {
	stopping.Go(func() {
		p.Stop()
		p.conversations.Close()
		if _, err := logins.Delete(p.login.key); err != nil {
			p.creator.logger.Error("ending the watch of a login", "error", err)
		}
		p.endEvents()
	})
	return nil
}

// member is one process of a configuration's app-servers.
type member struct {
	key    string
	pooled any // key, as the pool keeps it: to convert it for each turn would allocate
	cfg    appserver.Config
	logger *slog.Logger
	app    *App

	conversations conversation.Limits

	held atomic.Pointer[process] // the configuration's own reference; nil: there is none
}

// acquire takes a reference to the process, and starts it if there is none yet.
func (m *member) acquire() *process {
	// LoadOrNew fails only if the constructor does.
	value, _, _ := processes.LoadOrNew(m.pooled, func() (caddy.Destructor, error) {
		p := newProcess(m)
		p.start()
		return p, nil
	})
	return value.(*process)
}

// loginKey returns the key of the login of a member's process.
func (m *member) loginKey() string {
	key, _, _ := strings.Cut(m.key, "/")
	return key
}

// letGo releases a reference that acquire took.
func (m *member) letGo() {
	if _, err := processes.Delete(m.pooled); err != nil {
		m.logger.Error("stopping the codex app-server", "error", err)
	}
}

// current returns the process that the configuration holds, or nil.
func (m *member) current() *process { return m.held.Load() }

// hold takes the configuration's own reference.
func (m *member) hold() {
	p := m.acquire()
	p.hold(m)
	m.held.Store(p)
}

// release releases the configuration's own reference, if hold has taken it.
func (m *member) release() {
	if held := m.held.Swap(nil); held != nil {
		held.release(m)
		m.letGo()
	}
}

// stops are functions that run in the background. Unlike with a sync.WaitGroup, one may be
// added while Wait waits for the last: a turn may release its process while Caddy exits.
type stops struct{ running list[chan struct{}] }

// Go runs stop in the background.
func (s *stops) Go(stop func()) {
	done := make(chan struct{})
	s.running.add(done)
	go func() {
		stop()
		s.running.remove(done)
		close(done)
	}()
}

// Wait waits until no function runs.
func (s *stops) Wait() {
	for all := s.running.all(); len(all) > 0; all = s.running.all() {
		<-all[0]
	}
}
