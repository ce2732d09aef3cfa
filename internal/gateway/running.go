package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"

	"github.com/caddy-codex/caddy-codex/internal/openai"
	"github.com/caddy-codex/caddy-codex/internal/responsestore"
)

// Running knows the responses that are being streamed, so that they can be
// read and cancelled. There are as many as turns may run.
type Running struct {
	mu   sync.Mutex
	byID map[string]*running
}

// running is one of them.
type running struct {
	wire   *responseWire
	cancel context.CancelCauseFunc
	over   chan struct{}   // closed when it has ended
	last   json.RawMessage // the response as it ended; nil: it goes on, or was lost
}

// NewRunning makes an empty register.
func NewRunning() *Running { return &Running{byID: make(map[string]*running)} }

// begin enters a response. Its turn runs in the context of the request that is
// returned; end takes it off again.
func (r *Running) begin(request *http.Request, wire *responseWire) (_ *http.Request, end func()) {
	ctx, cancel := context.WithCancelCause(request.Context())
	id, one := wire.meta.ID, &running{wire: wire, cancel: cancel, over: make(chan struct{})}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.byID[id] = one
	return request.WithContext(ctx), func() {
		r.mu.Lock()
		delete(r.byID, id)
		r.mu.Unlock()
		cancel(nil)
		close(one.over)
	}
}

// ended remembers how a response has ended.
func (r *Running) ended(id string, response json.RawMessage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if one := r.byID[id]; one != nil {
		one.last = response
	}
}

// find finds a response of a user.
func (r *Running) find(user, id string) *running {
	r.mu.Lock()
	defer r.mu.Unlock()
	if one := r.byID[id]; one != nil && one.wire.entry.User == user {
		return one
	}
	return nil
}

// entry is a response of a user, as it is now: without an output as long as it
// goes on. Nil: it does not run, or nobody may read it since it is not kept.
func (r *Running) entry(user, id string) *responsestore.Entry {
	one := r.find(user, id)
	if one == nil || !one.wire.request.Stored() {
		return nil
	}
	r.mu.Lock()
	response := one.last
	r.mu.Unlock()
	if response == nil {
		response = one.wire.meta.InProgress()
	}
	return &responsestore.Entry{User: user, Response: response, Input: one.wire.entry.Input}
}

// stop cancels a response and waits for its end.
func (r *Running) stop(ctx context.Context, one *running) (json.RawMessage, error) {
	one.cancel(openai.ErrCancelled)
	select {
	case <-one.over:
		r.mu.Lock()
		defer r.mu.Unlock()
		return one.last, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
