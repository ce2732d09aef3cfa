package caddymodule

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/codexrpc/appserver"
)

const (
	// maxChanges bounds the changes of state of a process that wait to be told.
	maxChanges = 64
	// lookupTimeout bounds what an app-server is asked beside its turns.
	lookupTimeout = 5 * time.Second
	// watchEnd bounds the wait for a watch to tell the last that it knows.
	watchEnd = 5 * time.Second
	// limitsAge is how old the limits of a plan may be that are shown: Codex asks
	// its provider for them.
	limitsAge = 30 * time.Second
)

// watch follows a pooled process: it tells of its starts and ends as events,
// and knows it for metrics, usage and the admin API.
type watch struct {
	id      string // a name that says nothing of the configuration
	process *appserver.Process
	config  appserver.Config
	stage   func() *App // whose events tell of the process; nil: there is none
	done    chan struct{}

	mu      sync.Mutex // of changes
	changes chan appserver.Status
	closed  bool

	asking chan struct{} // has room for who asks Codex for limits: others wait for the same answer
	limits *codexrpc.RateLimits
	asked  time.Time
}

// newWatch begins to follow a process that is not started yet. key names it in
// the pool.
func newWatch(key string, config appserver.Config, process *appserver.Process, stage func() *App) *watch {
	sum := sha256.Sum256([]byte(key))
	w := &watch{
		id:      hex.EncodeToString(sum[:4]),
		process: process,
		config:  config,
		stage:   stage,
		done:    make(chan struct{}),
		asking:  make(chan struct{}, 1),
		changes: make(chan appserver.Status, maxChanges),
	}
	process.SetObserver(w.see)
	go w.run()
	return w
}

// see takes a change of state, without waiting. A process whose events are
// taken so slowly that many wait loses some.
func (w *watch) see(s appserver.Status) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	select {
	case w.changes <- s:
	default:
	}
}

// end ends the watch of a process that is stopped.
func (w *watch) end() {
	w.mu.Lock()
	if !w.closed {
		w.closed = true
		close(w.changes)
	}
	w.mu.Unlock()
	timer := time.NewTimer(watchEnd)
	defer timer.Stop()
	select {
	case <-w.done:
	case <-timer.C: // a handler of events does not return
	}
}

// run tells of changes, one after the other.
func (w *watch) run() {
	defer close(w.done)
	var life life
	for s := range w.changes {
		for _, e := range life.enter(s) {
			if e.name == eventReady {
				w.learnModels()
			}
			e.data["app_server"] = w.id
			tell(w.stage, e)
		}
	}
}

// learnModels lets metrics know the models by name. Without them the metrics
// are less detailed, and nothing else.
func (w *watch) learnModels() {
	ctx, cancel := context.WithTimeout(context.Background(), lookupTimeout)
	defer cancel()
	conn, err := w.process.Conn(ctx)
	if err != nil {
		return
	}
	models, err := conn.Models(ctx)
	if err != nil {
		return
	}
	for _, m := range models {
		modelLabels.add(m.ID)
	}
}

// rateLimits are the limits of the account's plan, nil if they are not known.
// It asks a process that is ready, until ctx ends.
func (w *watch) rateLimits(ctx context.Context) *codexrpc.RateLimits {
	select {
	case w.asking <- struct{}{}:
		defer func() { <-w.asking }()
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		return nil
	}
	if time.Since(w.asked) < limitsAge {
		return w.limits
	}
	w.limits = nil
	if w.process.Status().State != appserver.StateReady {
		return nil
	}
	conn, err := w.process.Conn(ctx)
	if err != nil {
		return nil
	}
	limits, err := conn.RateLimits(ctx)
	if err == nil {
		w.limits = &limits
	}
	// A refusal is an answer: an API key has no plan. No answer in time is one, too,
	// or else each caller would wait for as long. Only one who left says nothing.
	if !errors.Is(ctx.Err(), context.Canceled) {
		w.asked = time.Now()
	}
	return w.limits
}

// watches lists the processes of the pool, in the order of their ids.
func watches() []*watch {
	var all []*watch
	processes.Range(func(_, value any) bool {
		if p, ok := value.(*process); ok { // not one that is just being made
			all = append(all, p.watch)
		}
		return true
	})
	slices.SortFunc(all, func(a, b *watch) int { return strings.Compare(a.id, b.id) })
	return all
}
