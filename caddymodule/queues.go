package caddymodule

import (
	"sync"

	"github.com/caddy-codex/caddy-codex/internal/gateway"
)

// queues are the gateways of all handlers of configurations that are in use.
var queues gateways

// gateways is a set, for metrics and the admin API.
type gateways struct {
	mu  sync.Mutex
	set map[*gateway.Gateway]bool
}

func (g *gateways) add(one *gateway.Gateway) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.set == nil {
		g.set = make(map[*gateway.Gateway]bool)
	}
	g.set[one] = true
}

// remove removes one that has no place to run or wait any more for new
// requests, though old ones may still run.
func (g *gateways) remove(one *gateway.Gateway) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.set, one)
}

// sum counts the turns that run and the requests that wait.
func (g *gateways) sum() (running, waiting int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for one := range g.set {
		r, w := one.Queue()
		running += r
		waiting += w
	}
	return running, waiting
}

// bodyMemory is what the bodies of requests take, in bytes.
func (g *gateways) bodyMemory() (sum int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for one := range g.set {
		sum += one.BodyMemory()
	}
	return sum
}
