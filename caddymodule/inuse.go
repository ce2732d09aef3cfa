package caddymodule

import (
	"slices"
	"sync"
)

// list is what several configurations have registered, the newest last. The zero value is
// empty. It is safe for concurrent use.
type list[T comparable] struct {
	mu    sync.Mutex
	items []T
}

func (l *list[T]) add(item T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.items = append(l.items, item)
}

// remove removes an item. It may be called more than once.
func (l *list[T]) remove(item T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.items = slices.DeleteFunc(l.items, func(other T) bool { return other == item })
}

func (l *list[T]) all() []T {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.items)
}

// inUse are the handlers of all configurations that get requests, for the metrics and the
// admin API. Requests of others may still run.
var inUse list[*Handler]

// queue counts the turns that run, the requests that wait, and the memory of the bodies of
// requests, in bytes.
func queue() (running, waiting int, bodies int64) {
	for _, h := range inUse.all() {
		r, w := h.gateway.Queue()
		running, waiting, bodies = running+r, waiting+w, bodies+h.gateway.BodyMemory()
	}
	return running, waiting, bodies
}
