package caddymodule

import (
	"io"
	"sync"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/objects"
	"github.com/caddy-codex/caddy-codex/internal/responsestore"
	"github.com/caddy-codex/caddy-codex/internal/usage"
)

// engines are the stores that configurations use, so that a reload keeps what they have, and their
// connections.
var engines = enginePool{byKey: make(map[string]*engine)}

// lingers is how long an engine stays open that no configuration uses any more: as long as requests
// of the last one may run.
const lingers = objects.MaxBackground + 5*time.Minute

// enginePool has engines by their settings. It is safe for concurrent use.
type enginePool struct {
	mu    sync.Mutex
	byKey map[string]*engine
}

// engine is an open store.
type engine struct {
	store responsestore.Store
	usage *usage.Shared // nil: it counts none
	users int           // configurations
	end   *time.Timer   // closes it; nil: it is used
}

// open returns the engine with a key, which create makes if there is none. release ends the use.
func (p *enginePool) open(key string, create func() responsestore.Store) (store responsestore.Store, release func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.byKey[key]
	if e == nil {
		e = &engine{store: create()}
		if shared, ok := e.store.(*responsestore.Redis); ok {
			e.usage = usage.NewShared(shared.Run)
		}
		p.byKey[key] = e
	}
	if e.end != nil {
		e.end.Stop()
		e.end = nil
	}
	e.users++
	return e.store, sync.OnceFunc(func() { p.release(key, e) })
}

// usageOf returns the usage that a store counts, nil if it counts none.
func (p *enginePool) usageOf(store responsestore.Store) *usage.Shared {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.byKey {
		if e.store == store {
			return e.usage
		}
	}
	return nil
}

// release ends a use. What has nothing to close, or was never started, is forgotten at once.
func (p *enginePool) release(key string, e *engine) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.users--; e.users > 0 {
		return
	}
	store, starts := e.store.(startedStore)
	if !starts {
		delete(p.byKey, key)
		return
	}
	if store.Pause() {
		e.end = time.AfterFunc(lingers, func() { p.close(key, e) })
		return
	}
	delete(p.byKey, key)
	_ = store.Close() // nobody has used it
}

// close closes an engine, unless it is used again.
func (p *enginePool) close(key string, e *engine) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.users > 0 || p.byKey[key] != e {
		return
	}
	delete(p.byKey, key)
	_ = e.store.(startedStore).Close() // nobody uses it
}

// uses returns how many configurations use the engine with a key.
func (p *enginePool) uses(key string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.byKey[key]; e != nil {
		return e.users
	}
	return 0
}

// startedStore is a store that goes on by itself once its configuration is used.
type startedStore interface {
	io.Closer
	// Pause ends that, until it is started again. It reports whether the store was ever started.
	Pause() bool
}
