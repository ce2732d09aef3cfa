package store

import (
	"context"
	"sync"
	"time"
)

// listen wakes the callers of Watch when a node changes their entry, until ctx ends. While the
// connection is lost, listen misses changes. Then these callers wait for WatchTime.
func (r *Redis) listen(ctx context.Context) {
	subscription := r.client.Subscribe(ctx, r.channel())
	closed := make(chan struct{})
	context.AfterFunc(ctx, func() { // without this, the client would continue to read after the end of ctx
		defer close(closed)
		_ = subscription.Close()
	})
	defer func() { <-closed }()
	for ctx.Err() == nil {
		message, err := subscription.ReceiveMessage(ctx)
		if err == nil {
			r.watchers.notify(message.Payload, nil)
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// watchers has a channel for each entry for whose change somebody waits.
type watchers struct {
	mu   sync.Mutex
	byID map[string]chan struct{}
}

// watch returns a channel. The channel is closed by notify, or after WatchTime.
func (w *watchers) watch(id string) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	changed := w.byID[id]
	if changed == nil {
		changed = make(chan struct{})
		w.byID[id] = changed
		time.AfterFunc(WatchTime, func() { w.notify(id, changed) })
	}
	return changed
}

// notify wakes those who wait for a change of an entry: it closes the present channel, if there is one. A
// timer passes its own channel as expected: if another one is present by then, notify does nothing.
func (w *watchers) notify(id string, expected chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if current := w.byID[id]; current != nil && (expected == nil || current == expected) {
		delete(w.byID, id)
		close(current)
	}
}
