package storemodules

import (
	"cmp"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-codex/caddy-codex/internal/objects"
	"github.com/caddy-codex/caddy-codex/internal/quota"
	"github.com/caddy-codex/caddy-codex/internal/status"
	"github.com/caddy-codex/caddy-codex/internal/store"
	"github.com/caddy-codex/caddy-codex/internal/usage"
)

// openStores are shared by all configurations. A reload keeps their contents and connections.
var openStores = openStorePool{byKey: make(map[string]*OpenStore)}

// lingerTime is how long a store stays open after its last configuration has ended. Requests of that
// configuration may still run during this time, and use the store.
const lingerTime = objects.MaxBackground + 5*time.Minute

// openStorePool holds the open stores by their [openStoreKey]. It is safe for concurrent use.
type openStorePool struct {
	mu    sync.Mutex
	byKey map[string]*OpenStore
}

// OpenStore is an open store, with the state of its use by configurations.
type OpenStore struct {
	Store  *objects.Store // nil: nothing is stored
	Usage  *usage.Shared  // what all nodes have used; nil: the store counts no usage
	Limits *quota.Limits  // the limits of keys that all nodes share; nil: the store has none

	disk       *store.Disk  // the store, if it is one
	redis      *store.Redis // the store, if it is one
	logger     *slog.Logger
	configs    int         // how many configurations use the store
	started    bool        // one of the configurations has started the store
	closeTimer *time.Timer // closes the store after lingerTime; nil: a configuration uses the store
}

// openStoreKey returns a module's key in [openStorePool]. The same key shares an open store.
func openStoreKey(m Module) string {
	return string(m.CaddyModule().ID) + "\n" + m.key()
}

// Open returns the open store of a module, opened if needed. The caller calls start when its
// configuration comes into use, and release when it no longer is.
func Open(m Module, logger *slog.Logger) (_ *OpenStore, start func() error, release func()) {
	return openStores.open(m, logger)
}

// States returns the states of the stores in use, one for each engine, by the engines' names.
func States() map[string]status.Store {
	openStores.mu.Lock()
	defer openStores.mu.Unlock()
	states := make(map[string]status.Store)
	for key, e := range openStores.byKey {
		if e.Store == nil || !e.started || e.configs == 0 {
			continue
		}
		id, _, _ := strings.Cut(key, "\n")
		engine := caddy.ModuleID(id).Name()
		s := states[engine]
		s.State = cmp.Or(s.State, status.StoreWorks)
		if e.Store.Fails() {
			s.State = status.StoreFails
		}
		if e.Limits != nil {
			s.Unsettled += e.Limits.Unsettled()
		}
		states[engine] = s
	}
	return states
}

func (p *openStorePool) open(m Module, logger *slog.Logger) (_ *OpenStore, start func() error, release func()) {
	key := openStoreKey(m)
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.byKey[key]
	if e == nil {
		e = &OpenStore{logger: logger}
		m.open(e)
		p.byKey[key] = e
	}
	if e.closeTimer != nil {
		e.closeTimer.Stop()
		e.closeTimer = nil
	}
	e.configs++
	start = func() error {
		if err := m.start(e); err != nil {
			return err
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		e.started = true
		return nil
	}
	return e, start, sync.OnceFunc(func() { p.release(key, e) })
}

// release ends a configuration's use of a store. After the last one's, a timer closes it after
// lingerTime, but one that was never started, or needs no closing, is removed at once.
func (p *openStorePool) release(key string, e *OpenStore) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.configs--; e.configs > 0 {
		return
	}
	if e.started && (e.disk != nil || e.redis != nil) {
		if e.redis != nil {
			e.redis.Pause()
		}
		e.closeTimer = time.AfterFunc(lingerTime, func() { p.close(key, e) })
		return
	}
	delete(p.byKey, key)
	e.close()
}

// close closes an open store, unless a configuration uses it again.
func (p *openStorePool) close(key string, e *OpenStore) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.configs > 0 || p.byKey[key] != e {
		return
	}
	delete(p.byKey, key)
	e.storeLateCounts()
	e.close()
}

// close closes connections and file. An error does not matter: nobody uses the store.
func (e *OpenStore) close() {
	if e.disk != nil {
		_ = e.disk.Close()
	}
	if e.redis != nil {
		_ = e.redis.Close()
	}
}
