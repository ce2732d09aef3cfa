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
	store   stores.Store
	logger  *slog.Logger
	usage   *usage.Shared // nil: it counts none
	users   int           // configurations
	started bool          // one of them was used
	end     *time.Timer   // closes it; nil: it is used
}

// engineKey is the same for modules that share an engine.
func engineKey(m stores.Module) string {
	return string(m.(caddy.Module).CaddyModule().ID) + "\n" + m.Key()
}

// open returns the engine of a module, which is opened if there is none. start is called
// once the configuration is used, and release once it is not any more.
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

// release ends a use. What has nothing to close, or was never started, is forgotten at once.
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
		_ = store.Close() // nobody has used it
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
	_ = e.store.(stores.Closer).Close() // nobody uses it
}
