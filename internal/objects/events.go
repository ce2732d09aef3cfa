package objects

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/claims"
	"github.com/caddy-codex/caddy-codex/internal/store"
)

// Events are the numbered events of a background response.
type Events interface {
	// Next returns events. The parameter from is the number of the first event to return. If this
	// event has not come yet, Next returns a channel that is closed when there may be events. If no
	// more events will come, Next returns neither events nor a channel. If the first event was
	// dropped, the error is ErrDropped.
	//
	// The events must not be kept beyond the next call. Until then, claim holds their memory, even
	// if the log or the store has dropped them. If there is no memory, Next returns no events, and
	// a channel that is closed soon.
	Next(from int64, claim *claims.Claim) (events []Event, changed <-chan struct{}, err error)
}

// claimPause is the pause before memory for events is claimed again.
const claimPause = 250 * time.Millisecond

func soon() <-chan struct{} {
	closed := make(chan struct{})
	time.AfterFunc(claimPause, func() { close(closed) })
	return closed
}

// Events returns the events of a background response of the caller. The parameter from is the number of
// the first event. The events come from the log of this process, or otherwise from the store. They can be
// read until the request ends. claim is the claim that the caller passes to Next, too.
func (o *Objects) Events(r *http.Request, id string, from int64, claim *claims.Claim) (Events, *apierror.Error) {
	if log := o.Running.Logs.Find(o.User(r), id); log != nil {
		return log, nil
	}
	_, apiErr := o.withResponse(r, id, func(ctx context.Context) ([]byte, error) {
		entry, err := o.find(ctx, r, id, o.Store.GetObject)
		if err == nil {
			entry.Release()
		}
		return nil, err
	})
	if apiErr != nil {
		return nil, apiErr
	}
	missing := apierror.NoEvents("stream", ": they are kept of background responses, and for a while after their ends")
	if o.backgroundStore() == nil {
		return nil, missing
	}
	stored := &storedEvents{store: o.backgroundStore(), ctx: r.Context(), user: o.User(r), id: id}
	err := stored.read(from, claim)
	switch {
	case errors.Is(err, ErrDropped):
		return nil, missing
	case errors.Is(err, errNoMemory):
		err = nil // Next waits for memory
	}
	return stored, o.apiError(r, err, apierror.ResponseNotFound(id))
}

// storedEvents reads the events of a response from the store. The response belongs to another node
// or an earlier process.
type storedEvents struct {
	store    *Store
	ctx      context.Context
	user, id string

	lastRead EventPage // the result of the last read; claimed until the next read
	failedAt time.Time // when the store began to fail; zero: the store works
}

// maxOutage is how long the store may fail before the readers of events get an error.
const maxOutage = time.Minute

// Next implements [Events]. The parameter from must not be smaller than in the previous call.
func (s *storedEvents) Next(from int64, claim *claims.Claim) ([]Event, <-chan struct{}, error) {
	changed := s.store.engine.Watch(s.id) // before the read, so that no change is missed
	if from >= s.end() && !s.lastRead.Over {
		switch err := s.read(from, claim); {
		case errors.Is(err, errNoMemory):
			return nil, soon(), nil
		case errors.Is(err, store.ErrUnavailable) && s.ctx.Err() == nil && s.outage() < maxOutage:
			return nil, changed, nil // no error, since the store may work again at a later call
		case err != nil:
			return nil, nil, err
		}
	}
	switch {
	case from < s.end():
		return s.lastRead.Events[max(0, from-s.lastRead.First):], nil, nil
	case s.lastRead.Over:
		return nil, nil, nil
	}
	return nil, changed, nil
}

// outage returns for how long the store has failed. It is called after a failed read.
func (s *storedEvents) outage() time.Duration {
	if s.failedAt.IsZero() {
		s.failedAt = time.Now()
	}
	return time.Since(s.failedAt)
}

func (s *storedEvents) end() int64 { return s.lastRead.First + int64(len(s.lastRead.Events)) }

var errNoMemory = errors.New("there is no memory for the events")

// read sets s.lastRead to events from the store. The parameter from is the number of the first event. The
// memory of the events is claimed twice, since a client of the store may copy what it has received.
func (s *storedEvents) read(from int64, claim *claims.Claim) error {
	ctx, cancel := withStoreTimeout(s.ctx)
	defer cancel()
	limit := max(maxBatch, s.lastRead.Larger)
	claim.Release()
	s.lastRead = EventPage{First: from, Larger: s.lastRead.Larger}
	if !claim.Grow(2 * limit) {
		return errNoMemory
	}
	events, err := s.store.Events(ctx, s.user, s.id, from, limit)
	if err != nil {
		return err
	}
	size := sizeOf(events.Events...)
	if size > limit { // only the event of lostEvent, which heeds no limit
		events.Events, events.Larger = nil, size
	}
	s.lastRead, s.failedAt = events, time.Time{}
	if events.Larger > limit { // the next limit is large enough
		return s.read(from, claim)
	}
	claim.Shrink(2 * size)
	return nil
}
