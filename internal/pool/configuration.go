package pool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/caddy-codex/caddy-codex/internal/appserver"
	"github.com/caddy-codex/caddy-codex/internal/conversation"
)

// Configuration has all app-servers of one configuration of the program. The pools of the
// configuration share them. All methods are safe for concurrent use.
type Configuration struct {
	supervisor *Supervisor
	ctx        context.Context // ends when the configuration ends
	logger     *slog.Logger
	emit       func(name string, data map[string]any) // hands an event to the configuration's event handlers
	opened     chan struct{}                          // closed by Open
	openOnce   sync.Once

	mu      sync.Mutex
	members map[string]*member // by their keys
	leases  int                // how many leases were not released yet
}

// Start starts the processes that do not run yet. It forks them before it returns.
func (c *Configuration) Start() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.members {
		m.acquireForConfiguration()
	}
	for _, m := range c.members {
		m.inheritPredecessor()
	}
}

// Open is called when the whole program has started with the configuration. Events of the
// configuration's processes wait until then. Only the first call has an effect.
func (c *Configuration) Open() {
	c.openOnce.Do(func() {
		s := c.supervisor
		s.mu.Lock()
		s.openConfigurations = append(s.openConfigurations, c)
		s.mu.Unlock()
		close(c.opened)
	})
}

// Release releases the processes. If there are leases, the processes are released with the last
// lease. Release is called after c.ctx has ended, and may be called several times.
func (c *Configuration) Release() {
	s := c.supervisor
	s.mu.Lock()
	s.openConfigurations = slices.DeleteFunc(s.openConfigurations, func(other *Configuration) bool { return other == c })
	s.mu.Unlock()
	c.addLeases(0) // releases the processes if there are no leases
}

func (c *Configuration) ended() bool { return c.ctx.Err() != nil }

// addLeases adds n, perhaps -1, to the number of leases. It releases the processes if the configuration has ended
// and no lease is left.
func (c *Configuration) addLeases(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leases += n; !c.ended() || c.leases > 0 {
		return
	}
	for _, m := range c.members {
		m.releaseForConfiguration()
	}
}

// register returns the member for the process with the configuration cfg and the number ordinal.
// Processes with the same configuration have different ordinals. register is called before Start.
func (c *Configuration) register(cfg appserver.Config, ordinal int, limits conversation.Limits) *member {
	key := keyOf(cfg, ordinal)
	c.mu.Lock()
	defer c.mu.Unlock()
	m, ok := c.members[key]
	if !ok {
		m = &member{key: key, cfg: cfg, logger: c.logger, configuration: c}
		c.members[key] = m
	}
	if limits.Max > 0 { // a pool that keeps no threads must not change the limits for other pools
		m.threadLimits = limits
	}
	return m
}

// member is the use of one process by a configuration. Members with the same key, which belong to
// different configurations, share the process.
type member struct {
	key           string
	cfg           appserver.Config
	logger        *slog.Logger
	configuration *Configuration

	threadLimits conversation.Limits

	process     atomic.Pointer[Process] // the process, while the configuration holds a reference to it; else nil
	predecessor atomic.Pointer[Process] // see inheritPredecessor; nil: there is none
}

// acquire counts one more reference to the process and returns it. It starts a process if there is none.
func (m *member) acquire() *Process {
	return m.configuration.supervisor.processes.acquire(m.key, func() *Process {
		p := newProcess(m)
		p.events = make(chan event, maxEvents)
		p.SetObserver(p.observe)
		go p.emitEvents(p.events)
		p.Start()
		return p
	})
}

// release undoes one call of acquire. If that was the last reference, the process is stopped in the
// background, since the caller may be a request that loads a configuration, which must not wait.
func (m *member) release() {
	s := m.configuration.supervisor
	if p, last := s.processes.release(m.key); last {
		s.stopping.Go(p.end)
	}
}

// serving returns the process that gets the member's turns, the predecessor while there is one that works, else
// the member's own process, or nil; and the member with which to acquire and release this process.
func (m *member) serving() (*Process, *member) {
	p := m.process.Load()
	if p == nil { // the configuration has ended, and another configuration may have the process
		return m.configuration.supervisor.processes.find(m.key), m
	}
	if old := m.predecessor.Load(); old != nil {
		if s := old.Status(); s.State != appserver.StateReady || !s.AccountKnown {
			m.dropPredecessor()
			return p, m
		}
		if m.observe(p.Status()); m.predecessor.Load() == old { // observe has not dropped old
			return old, old.creator
		}
	}
	return p, m
}

// inheritPredecessor keeps a process of an earlier configuration in use until the account of the new
// process is known: a reload while the account back end fails would otherwise end what still works. The old
// process must have the same CODEX_HOME and know its account. All members must have their processes before
// the call, since a process that this configuration goes on using is no predecessor.
func (m *member) inheritPredecessor() {
	p := m.process.Load()
	home, err := m.cfg.OperatorHome()
	if err != nil || p.Status().AccountKnown {
		return
	}
	for _, old := range m.configuration.supervisor.processes.values() {
		oldHome, err := old.creator.cfg.OperatorHome()
		stillUsed := slices.ContainsFunc(old.currentHolders(), func(other *member) bool { return other.configuration == m.configuration })
		if err != nil || stillUsed || oldHome != home || !old.Status().AccountKnown {
			continue
		}
		if held := old.creator.acquire(); held != old { // old has just ended, so this is a new process
			old.creator.release()
			continue
		}
		m.predecessor.Store(old)
		m.observe(p.Status()) // the status may have changed since it was checked above
		return
	}
}

// observe drops the predecessor if the member's own process, whose status is s, works or has failed. It
// works when its account is known, or when its login has no plan and so no account.
func (m *member) observe(s appserver.Status) {
	p := m.process.Load()
	if p == nil || m.predecessor.Load() == nil {
		return
	}
	if conn := p.Serving(); s.AccountKnown || conn != nil && !conn.HasPlan() || s.State != appserver.StateStarting && s.State != appserver.StateReady {
		m.dropPredecessor()
	}
}

func (m *member) dropPredecessor() {
	if old := m.predecessor.Swap(nil); old != nil {
		old.creator.release()
	}
}

func (m *member) acquireForConfiguration() {
	p := m.acquire()
	p.addHolder(m)
	m.process.Store(p)
}

func (m *member) releaseForConfiguration() {
	m.dropPredecessor()
	if held := m.process.Swap(nil); held != nil {
		held.removeHolder(m)
		m.release()
	}
}

// Key returns a key of an app-server's configuration. Different configurations have different keys.
func Key(cfg appserver.Config) string {
	encoded, _ := json.Marshal(cfg) // no error: all fields of cfg can be encoded
	return fmt.Sprintf("%x", sha256.Sum256(encoded))
}

func keyOf(cfg appserver.Config, ordinal int) string { return fmt.Sprintf("%s/%d", Key(cfg), ordinal) }

// IDs returns the [Process.ID] of each process with the configuration cfg. processes is their number.
func IDs(cfg appserver.Config, processes int) (ids []string) {
	for ordinal := range processes {
		ids = append(ids, idOf(keyOf(cfg, ordinal)))
	}
	return ids
}

// idOf returns the id of the process with a key. It does not reveal the configuration.
func idOf(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:4])
}
