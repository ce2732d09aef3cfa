package codexrpc

import (
	"maps"
	"slices"
	"sync"
)

// parallelCalls records with which lite models the provider accepts requests in the full
// form, in which a model may call several tools at a time. It is valid until the login
// changes.
type parallelCalls struct {
	mu       sync.Mutex
	accepted modelSet
	refused  modelSet
}

// TakesParallelCalls reports whether the provider has accepted the full form with a model,
// and whether it has refused it. Both are false before the first request.
func (c *Conn) TakesParallelCalls(model string) (accepted, refused bool) {
	c.parallel.mu.Lock()
	defer c.parallel.mu.Unlock()
	return c.parallel.accepted[model], c.parallel.refused[model]
}

// ParallelCallsTaken records that the provider has accepted the full form with a model.
func (c *Conn) ParallelCallsTaken(model string) {
	c.parallel.mu.Lock()
	defer c.parallel.mu.Unlock()
	c.parallel.accepted.add(model)
}

// ParallelCallsRefused records that the provider has refused the full form with a model that
// it serves in the lite one. It reports whether that is new.
func (c *Conn) ParallelCallsRefused(model string) (first bool) {
	c.parallel.mu.Lock()
	defer c.parallel.mu.Unlock()
	return c.parallel.refused.add(model)
}

// SerialModels returns the models with which the provider has refused the full form, in the
// order of their names.
func (c *Conn) SerialModels() []string {
	c.parallel.mu.Lock()
	defer c.parallel.mu.Unlock()
	if len(c.parallel.refused) == 0 { // nearly always, and each request asks
		return nil
	}
	return slices.Sorted(maps.Keys(c.parallel.refused))
}

// forget drops what is recorded: another login may have another provider.
func (p *parallelCalls) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.accepted, p.refused = nil, nil
}
