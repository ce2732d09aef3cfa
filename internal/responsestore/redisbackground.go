package responsestore

import (
	"context"
	"sync"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/stores"
)

// channel returns the Redis channel to which nodes publish the ids of responses that have changed.
func (r *Redis) channel() string { return r.prefix + ":changed" }

// Continue implements [stores.Background].
func (r *Redis) Continue(ctx context.Context, user, id string, events stores.Events) (cancelled bool, err error) {
	args := []any{id, r.processID, r.leaseTime.Milliseconds(), stores.EventsTime.Milliseconds(), r.channel(), events.First, events.Over, r.maxBytes, stores.ItemOverhead}
	for _, e := range events.Events {
		args = append(args, e.Name, e.Data)
	}
	word, err := r.runForWord(ctx, continueScript, user, args...)
	return word == "cancel", err
}

// Cancel implements [stores.Background].
func (r *Redis) Cancel(ctx context.Context, user, id string) error {
	_, err := r.runForWord(ctx, cancelScript, user, id, r.channel())
	return err
}

// Events implements [stores.Background].
func (r *Redis) Events(ctx context.Context, user, id string, from, limit int64) (stores.Events, error) {
	events := stores.Events{First: from}
	answer, err := r.run(ctx, eventsScript, user, id, from, limit, stores.ItemOverhead)
	if err != nil {
		return events, err
	}
	parts, _ := answer.([]any)
	if len(parts) < 4 {
		return events, stores.ErrNotFound
	}
	if events.Larger, _ = parts[3].(int64); events.Larger > 0 {
		return events, nil
	}
	for i := 4; i+1 < len(parts); i += 2 {
		events.Events = append(events.Events, stores.Event{Name: asText(parts[i]), Data: []byte(asText(parts[i+1]))})
	}
	total, _ := parts[1].(int64)
	next := from + int64(len(events.Events))
	switch leased := r.isLeased(parts[0]); {
	case len(events.Events) == 0 && from < total:
		return events, stores.ErrDropped
	case from >= total && parts[2] == int64(2):
		return r.lostEvent(ctx, user, id, from)
	case next >= total && parts[2] != int64(0):
		events.Over = true
	case next >= total && !leased && len(events.Events) == 0:
		return r.eventsAfterLoss(ctx, user, id, from)
	}
	return events, nil
}

// eventsAfterLoss is called if the owner of a response had no lease. If the response is running,
// eventsAfterLoss stores that it has failed; the next call of Events then returns the event of the
// failure. If the response has ended and its last events are missing, the error is
// stores.ErrDropped.
func (r *Redis) eventsAfterLoss(ctx context.Context, user, id string, from int64) (stores.Events, error) {
	events := stores.Events{First: from}
	e, fields, leased, err := r.getEntry(ctx, user, id, "head", "")
	if err != nil {
		return events, err
	}
	defer e.Release()
	switch {
	case leased:
		return events, nil // the owner has continued the response meanwhile; the next call of Events reads its new events
	case !e.Running && fields["over"] == "":
		return events, stores.ErrDropped
	case !e.Running:
		return events, nil
	}
	return events, r.markLost(ctx, user, id, e, fields["events"])
}

// lostEvent returns the last event of a response whose owner was lost. It is for a client that has
// read more events than were stored, or exactly as many as are stored with the event of the failure:
// such a client has read another event with that number. So the event gets the number that the
// client wants next: the parameter from.
func (r *Redis) lostEvent(ctx context.Context, user, id string, from int64) (stores.Events, error) {
	e, err := r.GetPart(ctx, user, id, "")
	if err != nil {
		return stores.Events{}, err
	}
	defer e.Release()
	_, last := stores.Lost(e.Response, from)
	return stores.Events{First: from, Events: []stores.Event{last}, Over: true}, nil
}

// Watch implements [stores.Background].
func (r *Redis) Watch(id string) <-chan struct{} { return r.watchers.watch(id) }

// listen wakes the callers of Watch when a node changes their response, until ctx ends. While the
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
			r.watchers.notify(message.Payload)
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// watchers has a channel for each response that is watched: somebody waits until it changes.
type watchers struct {
	mu   sync.Mutex
	byID map[string]chan struct{}
}

func newWatchers() *watchers { return &watchers{byID: make(map[string]chan struct{})} }

// watch returns a channel. The channel is closed by notify, or after WatchTime.
func (w *watchers) watch(id string) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	changed := w.byID[id]
	if changed == nil {
		changed = make(chan struct{})
		w.byID[id] = changed
		time.AfterFunc(stores.WatchTime, func() { w.closeChannel(id, changed) })
	}
	return changed
}

// notify wakes those who wait for a change of a response.
func (w *watchers) notify(id string) { w.closeChannel(id, nil) }

// closeChannel closes the present channel of a response, if there is one. If expected is neither
// nil nor the present channel, closeChannel does nothing.
func (w *watchers) closeChannel(id string, expected chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if current := w.byID[id]; current != nil && (expected == nil || current == expected) {
		delete(w.byID, id)
		close(current)
	}
}
