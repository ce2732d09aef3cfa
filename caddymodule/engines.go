package caddymodule

import (
	"log/slog"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-codex/caddy-codex/internal/objects"
	"github.com/caddy-codex/caddy-codex/internal/responsestore"
	"github.com/caddy-codex/caddy-codex/internal/usage"
	"github.com/caddy-codex/caddy-codex/stores"
)

// engines are the open stores of all configurations. A reload keeps their contents and their
// connections.
var engines = enginePool{byKey: make(map[string]*engine)}

// lingers is how long an engine (an open store) stays open after its last configuration has ended.
// Requests of that configuration may still run during this time, and use the engine.
const lingers = objects.MaxBackground + 5*time.Minute

// enginePool holds the open engines by their [engineKey]. It is safe for concurrent use.
type enginePool struct {
	mu    sync.Mutex
	byKey map[string]*engine
}

// engine is an open store.
type engine struct {
	store   stores.Store
	logger  *slog.Logger
	usage   *usage.Shared // nil: the store counts no usage
	users   int           // configurations that use the engine
	started bool          // by one of the configurations
	end     *time.Timer   // closes the store; nil: it is in use
}

// engineKey returns the key of the engine (the open store) of a store module. Modules with the same
// key share an engine.
func engineKey(m stores.Module) string {
	return string(m.(caddy.Module).CaddyModule().ID) + "\n" + m.Key()
}

// open returns the engine (the open store) of a store module, and makes one if there is none. The
// caller calls start when its configuration comes into use, and release when the configuration is
// no longer used.
func (p *enginePool) open(m stores.Module, logger *slog.Logger) (_ *engine, start func() error, release func()) {
	key := engineKey(m)
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.byKey[key]
	if e == nil {
		e = &engine{store: m.Open(logger), logger: logger}
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
	start = func() error {
		if err := m.Start(e.store); err != nil {
			return err
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		e.started = true
		e.resettle(key)
		return nil
	}
	return e, start, sync.OnceFunc(func() { p.release(key, e) })
}

// release ends a configuration's use of an engine. After the last use the engine is closed, with
// a delay of lingers. An engine that was never started, or has nothing to close, is removed at once.
func (p *enginePool) release(key string, e *engine) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.users--; e.users > 0 {
		return
	}
	store, closes := e.store.(stores.Closer)
	if closes && e.started {
		store.Pause()
		e.saveUnsettled(key)
		e.end = time.AfterFunc(lingers, func() { p.close(key, e) })
		return
	}
	delete(p.byKey, key)
	if closes {
		_ = store.Close() // an error does not matter: nobody has used the store
	}
}

// close closes an engine, unless it is used again.
func (p *enginePool) close(key string, e *engine) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.users > 0 || p.byKey[key] != e {
		return
	}
	delete(p.byKey, key)
	_ = e.store.(stores.Closer).Close() // an error does not matter: nobody uses the store
}
