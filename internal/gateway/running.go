package gateway

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/eventlog"
	"github.com/caddy-codex/caddy-codex/internal/responses"
	"github.com/caddy-codex/caddy-codex/internal/responsestore"
)

// Running is the register of the responses that are being streamed or run in the
// background, so that they can be read and cancelled. It has as many as turns may run.
type Running struct {
	logs *eventlog.Logs // the events of background responses

	mu   sync.Mutex
	byID map[string]*running
}

// running is one of them.
type running struct {
	form   *responseForm
	cancel context.CancelCauseFunc
	over   chan struct{}   // closed when it has ended
	last   json.RawMessage // the response as it ended; nil: it goes on, or was lost
}

// NewRunning returns an empty register.
func NewRunning() *Running {
	return &Running{logs: eventlog.New(eventLimits), byID: make(map[string]*running)}
}

// eventLimits bound the events that are kept of background responses.
var eventLimits = eventlog.Limits{Each: 32 << 20, Together: 128 << 20, Keep: 5 * time.Minute}

// begin enters a response. Its turn runs in the context that begin returns; end
// removes it.
func (r *Running) begin(ctx context.Context, form *responseForm) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	id, one := form.meta.ID, &running{form: form, cancel: cancel, over: make(chan struct{})}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.byID[id] = one
	return ctx, func() {
		r.mu.Lock()
		delete(r.byID, id)
		r.mu.Unlock()
		cancel(nil)
		close(one.over)
	}
}

// ended records how a response has ended.
func (r *Running) ended(id string, response json.RawMessage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if one := r.byID[id]; one != nil {
		one.last = response
	}
}

// find returns a response of a user, or nil.
func (r *Running) find(user, id string) *running {
	r.mu.Lock()
	defer r.mu.Unlock()
	if one := r.byID[id]; one != nil && one.form.entry.User == user {
		return one
	}
	return nil
}

// entry returns a response of a user as it is now: without an output as long as it
// goes on. It returns nil if the response does not run, or is not to be stored.
func (r *Running) entry(user, id string) *responsestore.Entry {
	one := r.find(user, id)
	if one == nil || !one.form.request.Stored() {
		return nil
	}
	r.mu.Lock()
	response := one.last
	r.mu.Unlock()
	if response == nil {
		response = one.form.meta.InProgress()
	}
	return &responsestore.Entry{User: user, Response: response, Input: one.form.entry.Input}
}

// stop cancels a response, waits for its end and returns it as it ended; nil if it
// had not begun.
func (r *Running) stop(ctx context.Context, one *running) (json.RawMessage, error) {
	one.cancel(responses.ErrCancelled)
	select {
	case <-one.over:
		r.mu.Lock()
		defer r.mu.Unlock()
		return one.last, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Wait waits until no response is under way, or ctx ends. When the server exits, each
// ends with its drain timeout.
func (r *Running) Wait(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, maxBackground)
	defer cancel()
	for one := r.any(); one != nil; one = r.any() {
		select {
		case <-one.over:
		case <-ctx.Done():
			return
		}
	}
}

// any returns one of the responses, or nil.
func (r *Running) any() *running {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.byID {
		return one
	}
	return nil
}
