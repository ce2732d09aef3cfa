package caddymodule

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/codexrpc/appserver"
)

const (
	// maxChanges bounds the changes of a process's state that wait for their events.
	maxChanges = 64
	// lookupTimeout bounds the requests to an app-server that belong to no turn.
	lookupTimeout = 5 * time.Second
	// monitorEnd bounds the wait for a monitor to emit its last events.
	monitorEnd = 5 * time.Second
	// limitsAge is how long the limits of a plan are cached: Codex asks its provider
	// for them.
	limitsAge = 30 * time.Second
)

// monitor follows a pooled process: it emits events of its starts and ends, and presents
// it to the metrics, the usage and the admin API.
type monitor struct {
	id      string
	key     string // of the process in the pool
	process *process
	config  appserver.Config
	emitter func() *App // returns the app that emits the events; nil: there is none
	done    chan struct{}

	mu      sync.Mutex // of changes
	changes chan change
	closed  bool

	asking chan struct{} // a semaphore: one goroutine asks for limits, the others wait for its answer
	limits *codexrpc.RateLimits
	asked  time.Time
}

// newMonitor returns the monitor of a process that is not started yet. key is its key in
// the pool.
func newMonitor(key string, config appserver.Config, process *process) *monitor {
	m := &monitor{
		id:      processID(key),
		key:     key,
		process: process,
		config:  config,
		emitter: process.emitter,
		done:    make(chan struct{}),
		asking:  make(chan struct{}, 1),
		changes: make(chan change, maxChanges),
	}
	process.SetObserver(m.observe)
	go m.run()
	return m
}

// change is a change of the state of the process, or an event of its login.
type change struct {
	status appserver.Status
	event  *event // nil: status counts
}

// observe takes a change of state without waiting.
func (m *monitor) observe(s appserver.Status) {
	m.process.conversations.Follow(m.process.Serving())
	m.process.login.observe(s)
	m.post(change{status: s})
}

// post takes a change without waiting. If too many changes wait, because a handler of
// events is slow, the change is lost.
func (m *monitor) post(c change) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	select {
	case m.changes <- c:
	default:
	}
}

// end ends the monitor of a process that has stopped.
func (m *monitor) end() {
	m.mu.Lock()
	if !m.closed {
		m.closed = true
		close(m.changes)
	}
	m.mu.Unlock()
	timer := time.NewTimer(monitorEnd)
	defer timer.Stop()
	select {
	case <-m.done:
	case <-timer.C: // a handler of events has not returned
	}
}

// run emits the events of the changes, in their order.
func (m *monitor) run() {
	defer close(m.done)
	var tracker stateTracker
	for c := range m.changes {
		events := []event{}
		if c.event != nil {
			events = append(events, *c.event)
		} else {
			events = tracker.enter(c.status)
		}
		for _, e := range events {
			if e.name == eventReady {
				m.learnModels()
			}
			e.data["app_server"] = m.id
			emit(m.emitter, e)
		}
	}
}

// learnModels gives the models that Codex lists their labels in the metrics. If it fails,
// they count as "other".
func (m *monitor) learnModels() {
	ctx, cancel := context.WithTimeout(context.Background(), lookupTimeout)
	defer cancel()
	conn, err := m.process.Conn(ctx)
	if err != nil {
		return
	}
	models, err := conn.Models(ctx)
	if err != nil {
		return
	}
	for _, model := range models {
		modelLabels.add(model.ID)
	}
}

// rateLimits returns the limits of the login's plan, and nil if they are not known. It asks
// a process that is ready, until ctx ends, and caches the answer.
func (m *monitor) rateLimits(ctx context.Context) *codexrpc.RateLimits {
	select {
	case m.asking <- struct{}{}:
		defer func() { <-m.asking }()
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		return nil
	}
	if time.Since(m.asked) < limitsAge {
		return m.limits
	}
	m.limits = nil
	if m.process.Status().State != appserver.StateReady {
		return nil
	}
	conn, err := m.process.Conn(ctx)
	if err != nil {
		return nil
	}
	limits, err := conn.RateLimits(ctx)
	if err == nil {
		m.limits = &limits
	}
	// An error is cached, too: a login by API key has no plan. So is a timeout, or else
	// every caller would wait for it. A caller that has left proves nothing.
	if !errors.Is(ctx.Err(), context.Canceled) {
		m.asked = time.Now()
	}
	return m.limits
}

// monitors returns the monitors of all processes of the pool, ordered by id.
func monitors() []*monitor {
	var all []*monitor
	processes.Range(func(_, value any) bool {
		if p, ok := value.(*process); ok { // not ok: it is being created
			all = append(all, p.monitor)
		}
		return true
	})
	slices.SortFunc(all, func(a, b *monitor) int { return strings.Compare(a.id, b.id) })
	return all
}
