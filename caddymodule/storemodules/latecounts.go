package storemodules

import (
	"context"
	"time"
)

// lateCountsTimeout bounds the time in which [OpenStore.storeLateCounts] waits for a store.
const lateCountsTimeout = 5 * time.Second

// StoreLateCounts stores what is not yet counted in stores without a configuration, for example what
// requests have counted after their configuration had ended. It is called when the program exits.
func StoreLateCounts() { openStores.storeLateCounts() }

func (p *openStorePool) storeLateCounts() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.byKey {
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
