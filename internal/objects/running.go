package objects

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
)

// Running is the register of the responses that are being streamed or run in the background, so
// that other requests can read and cancel them. It has at most as many responses as turns may run.
type Running struct {
	Logs *Logs // the events of background responses

	mu   sync.Mutex
	byID map[string]*running
}

// Response is a response that is running.
type Response struct {
	ID         string
	Entry      *Entry                 // its Response and Output are set when the response ends
	Stored     bool                   // clients can read the response by its id already, and it will be stored
	Size       int64                  // bytes of what InProgress returns, or somewhat more
	InProgress func() json.RawMessage // returns the response as it is now, without its output
}

// running is a response in the register.
type running struct {
	Response
	cancel        context.CancelCauseFunc
	done          chan struct{}   // closed when the response has left the register
	final         json.RawMessage // the response as it ended; nil: the response is running, or never began
	isFinalStored bool            // final is stored; some events may not be stored yet
	isDeleted     bool            // a client has deleted the response, so it must not be stored
}

// NewRunning returns an empty register.
func NewRunning() *Running {
	return &Running{Logs: newLogs(eventLimits), byID: make(map[string]*running)}
}

// MaxBackground is how long a background response may take, counted from its creation.
const MaxBackground = time.Hour

// eventLimits bound the events of background responses that are kept in memory.
var eventLimits = logLimits{LogBytes: 32 << 20, TotalBytes: 128 << 20, KeepTime: 5 * time.Minute}

// Begin enters a response in the register. The turn of the response runs with the returned context,
// so that stop can cancel it. end removes the response.
func (r *Running) Begin(ctx context.Context, response Response) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	id, one := response.ID, &running{Response: response, cancel: cancel, done: make(chan struct{})}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.byID[id] = one
	return ctx, func() {
		r.mu.Lock()
		delete(r.byID, id)
		r.mu.Unlock()
		cancel(nil)
		close(one.done)
	}
}

func (r *Running) look(id string, f func(*running)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if one := r.byID[id]; one != nil {
		f(one)
	}
}

// Ended records the response as it has ended.
func (r *Running) Ended(id string, response json.RawMessage) {
	r.look(id, func(one *running) { one.final = response })
}

// Kept records that the ended response is stored.
func (r *Running) Kept(id string) { r.look(id, func(one *running) { one.isFinalStored = true }) }

// IsDeleted reports whether a client has deleted the response while it ran or was being stored.
func (r *Running) IsDeleted(id string) (isDeleted bool) {
	r.look(id, func(one *running) { isDeleted = one.isDeleted })
	return isDeleted
}

// markDeleted marks a response of a user as deleted, for find, and returns it. It returns nil if the register has
// no such response, or if the response will not be stored.
func (r *Running) markDeleted(user, id string) *running {
	one := r.findStored(user, id)
	if one != nil {
		r.look(id, func(one *running) { one.isDeleted = true })
	}
	return one
}

// isOver reports whether a response has left the register, was deleted, or has ended and is still
// being stored.
func (r *Running) isOver(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	one := r.byID[id]
	return one == nil || one.final != nil || one.isDeleted
}

// find returns a response of a user, or nil. A deleted response is not found.
func (r *Running) find(user, id string) *running {
	r.mu.Lock()
	defer r.mu.Unlock()
	if one := r.byID[id]; one != nil && one.Entry.User == user && !one.isDeleted {
		return one
	}
	return nil
}

// findStored returns a response of a user that is or will be stored, or nil. A response stays in the
// register until all its events are stored, so a client can refer to the response as soon as the
// client knows of its end.
func (r *Running) findStored(user, id string) *running {
	if one := r.find(user, id); one != nil && one.Stored {
		return one
	}
	return nil
}

// currentResponse returns a copy of the ended response if that is stored, and otherwise of the
// response in progress, without output.
func (r *Running) currentResponse(one *running, claimMemory Hold) (json.RawMessage, error) {
	r.mu.Lock()
	final, isStored := one.final, one.isFinalStored
	r.mu.Unlock()
	if isStored {
		return copyPart(final, claimMemory)
	}
	if apiErr := claimMemory(one.Size); apiErr != nil {
		return nil, apiErr
	}
	return one.InProgress(), nil
}

// cancelWait is how long stop waits for the end of a response. Without a bound, a client that cancels its
// own stream within the loop that reads the stream would wait for ever: it reads no further before it has
// the answer, and the turn of a stream cannot end while its client does not read.
const cancelWait = 5 * time.Second

// errStillRunning means that a cancelled response has not ended after cancelWait.
var errStillRunning = errors.New("the cancelled response has not ended yet")

// stop cancels a response and waits for its end. It returns the ended response, or nil if the
// response had not begun. The error is errStillRunning, or the cause of the end of ctx.
func (r *Running) stop(ctx context.Context, one *running) (json.RawMessage, error) {
	one.cancel(apierror.ErrCancelled)
	ctx, cancel := context.WithTimeoutCause(ctx, cancelWait, errStillRunning)
	defer cancel()
	select {
	case <-one.done:
		r.mu.Lock()
		defer r.mu.Unlock()
		return one.final, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Wait waits until no response runs, but at most until ctx ends or MaxBackground has passed. When
// the server exits, the drain timeouts of the requests end the responses.
func (r *Running) Wait(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, MaxBackground)
	defer cancel()
	for one := r.anyRunning(); one != nil; one = r.anyRunning() {
		select {
		case <-one.done:
		case <-ctx.Done():
			return
		}
	}
}

func (r *Running) anyRunning() *running {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.byID {
		return one
	}
	return nil
}
