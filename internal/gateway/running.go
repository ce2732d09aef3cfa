package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
)

// errCancelled ends the turn of a response that somebody has cancelled.
var errCancelled = errors.New("the response was cancelled")

// Running knows the responses that are being streamed, so that they can be
// cancelled. There are as many as turns may run.
type Running struct {
	mu   sync.Mutex
	byID map[string]*running
}

// running is one of them.
type running struct {
	user   string
	cancel context.CancelCauseFunc
	over   chan struct{}   // closed when it has ended
	last   json.RawMessage // the response as it ended; nil: it was lost
}

// NewRunning makes an empty register.
func NewRunning() *Running { return &Running{byID: make(map[string]*running)} }

// begin enters a response. Its turn runs in the context of the request that is
// returned; end takes it off again.
func (r *Running) begin(request *http.Request, id, user string) (_ *http.Request, end func()) {
	ctx, cancel := context.WithCancelCause(request.Context())
	one := &running{user: user, cancel: cancel, over: make(chan struct{})}
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
	if one := r.byID[id]; one != nil && one.user == user {
		return one
	}
	return nil
}

// stop cancels a response and waits for its end.
func (r *Running) stop(ctx context.Context, one *running) (json.RawMessage, error) {
	one.cancel(errCancelled)
	select {
	case <-one.over:
		r.mu.Lock()
		defer r.mu.Unlock()
		return one.last, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
