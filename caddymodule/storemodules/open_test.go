package storemodules

import (
	"log/slog"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// TestEngines checks that a configuration gets the open store of the one before, with the same settings,
// also if that has just ended.
func TestEngines(t *testing.T) {
	pool, dir, log := openStorePool{byKey: make(map[string]*OpenStore)}, t.TempDir(), slog.New(slog.DiscardHandler)
	disk := func(size int64) *Disk {
		s := &Disk{Dir: dir, Size: size}
		must.OK(t, s.Provision(caddy.Context{}))
		return s
	}
	first, start, release := pool.open(disk(1<<20), log)
	must.OK(t, start())
	second, start, releaseSecond := pool.open(disk(2<<20), log)
	must.OK(t, start())
	key := openStoreKey(disk(1))
	if first != second || pool.uses(key) != 2 {
		t.Error(first, second)
	}
	release()
	release()
	releaseSecond()
	if third, _, release := pool.open(disk(1<<20), log); third != first {
		t.Error("requests of the last configuration may still use it, but there is another one")
	} else {
		release()
	}
	pool.close(key, pool.byKey[key])
	memory, _, release := pool.open(new(Memory), log)
	release()
	if again, _, release := pool.open(new(Memory), log); again == memory {
		t.Error("what nobody uses was kept")
	} else {
		release()
	}
	if off, _, _ := pool.open(new(Off), log); off.Store != nil {
		t.Error("off stores")
	}
}

// uses returns how many configurations use the open store with a key.
func (p *openStorePool) uses(key string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.byKey[key]; e != nil {
		return e.configs
	}
	return 0
}
