// Package storemodules has the Caddy modules of the engines that store responses. It opens their
// stores, which the configurations share.
package storemodules

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-codex/caddy-codex/internal/objects"
	"github.com/caddy-codex/caddy-codex/internal/option"
	"github.com/caddy-codex/caddy-codex/internal/quota"
	"github.com/caddy-codex/caddy-codex/internal/status"
	"github.com/caddy-codex/caddy-codex/internal/store"
	"github.com/caddy-codex/caddy-codex/internal/usage"
)

func init() {
	caddy.RegisterModule(Off{})
	caddy.RegisterModule(Memory{})
	caddy.RegisterModule(Disk{})
	caddy.RegisterModule(Redis{})
}

// Namespace is the namespace of the modules. The last part of a module's id is its name after the
// option `store` in a Caddyfile, and its `type` in JSON.
const Namespace = "http.codex.stores"

// Module is the Caddy module of an engine.
type Module interface {
	caddy.Module
	// key identifies the settings. Modules with the same id and key share a store, over reloads.
	key() string
	// open opens the store of o, if any. It does not wait, since this configuration may never be used.
	open(o *OpenStore)
	// start is called when a configuration begins to use o. If start fails, the configuration is refused.
	start(o *OpenStore) error
}

// parse reads the name of a store, its optional args and then its block, which is read into store.
func parse(d *caddyfile.Dispenser, store any, args ...*string) error {
	d.Next()
	d.Args(args...)
	name := d.Val()
	if d.NextArg() {
		return d.Errf("store %s takes no %q here; limits are in a block: { size 64MiB }", name, d.Val())
	}
	return option.ParseBlock(d, store, nil)
}

// openStores are shared by all configurations. A reload keeps their contents and connections.
var openStores = struct {
	sync.Mutex
	byKey map[string]*OpenStore
}{byKey: make(map[string]*OpenStore)}

// lingerTime is how long a store stays open after its last configuration has ended. Requests of that
// configuration may still run during this time, and use the store.
const lingerTime = objects.MaxBackground + 5*time.Minute

// lateCountsTimeout bounds the time in which [OpenStore.storeLateCounts] waits for a store.
const lateCountsTimeout = 5 * time.Second

// OpenStore is an open store, with the state of its use by configurations.
type OpenStore struct {
	Store  *objects.Store // nil: nothing is stored
	Usage  *usage.Shared  // what all nodes have used; nil: the store counts no usage
	Limits *quota.Limits  // the limits of keys that all nodes share; nil: the store has none

	// ShareKey returns the key with which all nodes seal what clients keep. The first node's own becomes that
	// key. Nil: nodes share no key.
	ShareKey func(ctx context.Context, own string) (string, error)

	engine string       // the name of the engine
	key    string       // of this store in openStores
	disk   *store.Disk  // the engine, if it is a disk
	redis  *store.Redis // the engine, if it is Redis
	logger *slog.Logger

	// The mutex of openStores protects the other fields.
	configs    int         // how many configurations use the store
	started    bool        // one of the configurations has started the store
	closeTimer *time.Timer // closes the store after lingerTime; nil: a configuration uses the store
}

// States returns the states of the stores in use, one for each engine, by the engines' names.
func States() map[string]status.Store {
	openStores.Lock()
	defer openStores.Unlock()
	states := make(map[string]status.Store)
	for _, e := range openStores.byKey {
		if e.Store == nil || !e.started || e.configs == 0 {
			continue
		}
		s := states[e.engine]
		s.State = cmp.Or(s.State, status.StoreWorks)
		if e.Store.Fails() {
			s.State = status.StoreFails
		}
		if e.Limits != nil {
			s.Unsettled += e.Limits.Unsettled()
		}
		states[e.engine] = s
	}
	return states
}

// Open returns the store of a module, and opens it if needed. The caller calls start when its
// configuration comes into use, and release when the configuration is no longer used.
func Open(m Module, logger *slog.Logger) (_ *OpenStore, start func() error, release func()) {
	id := m.CaddyModule().ID
	key := string(id) + "\n" + m.key()
	openStores.Lock()
	defer openStores.Unlock()
	e := openStores.byKey[key]
	if e == nil {
		e = &OpenStore{engine: id.Name(), key: key, logger: logger}
		m.open(e)
		openStores.byKey[key] = e
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
		openStores.Lock()
		defer openStores.Unlock()
		e.started = true
		return nil
	}
	return e, start, sync.OnceFunc(e.release)
}

// release ends a configuration's use of a store. After the last use, a timer closes the store after
// lingerTime. A store that was never started, or has nothing to close, is removed at once.
func (e *OpenStore) release() {
	openStores.Lock()
	defer openStores.Unlock()
	if e.configs--; e.configs > 0 {
		return
	}
	if e.started && (e.disk != nil || e.redis != nil) {
		if e.redis != nil {
			e.redis.Pause()
		}
		e.closeTimer = time.AfterFunc(lingerTime, e.closeUnused)
		return
	}
	e.close()
}

// closeUnused closes an open store, unless a configuration uses it again.
func (e *OpenStore) closeUnused() {
	openStores.Lock()
	defer openStores.Unlock()
	if e.configs > 0 || openStores.byKey[e.key] != e {
		return
	}
	e.storeLateCounts()
	e.close()
}

// close removes the store, and closes its connections and file. Errors do not matter: nobody uses it.
func (e *OpenStore) close() {
	delete(openStores.byKey, e.key)
	if e.disk != nil {
		_ = e.disk.Close()
	}
	if e.redis != nil {
		_ = e.redis.Close()
	}
}

// StoreLateCounts stores what is not yet counted in stores without a configuration, for example what
// requests have counted after their configuration had ended. It is called when the program exits.
func StoreLateCounts() {
	openStores.Lock()
	defer openStores.Unlock()
	for _, e := range openStores.byKey {
		if e.closeTimer != nil {
			e.storeLateCounts()
		}
	}
}

// storeLateCounts tries for the last time to store what Redis has not counted yet.
func (e *OpenStore) storeLateCounts() {
	if e.redis == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lateCountsTimeout)
	defer cancel()
	e.Limits.Settle(ctx)
	err := e.Usage.Store(ctx)
	if turns := max(e.Limits.Unsettled(), e.Usage.Unstored()); turns > 0 {
		e.logger.Error("what Redis could not count is lost; next time, stop Caddy or replace its store only while Redis works", "turns", turns, "error", err)
	}
}
