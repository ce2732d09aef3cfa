package objects

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/stores"
)

// Events are the numbered events of a background response. Next works like [Log.Next].
type Events interface {
	Next(from int64) (events []stores.Event, changed <-chan struct{}, err error)
}

// Events returns the events of a background response of the caller. The parameter from is the
// number of the first event. The events come from the log of this process, or otherwise from the
// store. They can be read until the request ends.
func (o *Objects) Events(r *http.Request, id string, from int64) (Events, *apierror.Error) {
	if log := o.Running.Logs.Find(o.User(r), id); log != nil {
		return log, nil
	}
	entry, apiErr := o.entry(r, id)
	if apiErr != nil {
		return nil, apiErr
	}
	entry.Release()
	missing := apierror.NoEvents("stream", ": they are kept of background responses, and for a while after their ends")
	if o.backgroundStore() == nil {
		return nil, missing
	}
	stored := &storedEvents{store: o.backgroundStore(), ctx: r.Context(), user: o.User(r), id: id}
	err := stored.read(from)
	if errors.Is(err, stores.ErrDropped) {
		return nil, missing
	}
	return stored, o.apiError(r, err, apierror.ResponseNotFound(id))
}

// storedEvents reads the events of a response from the store. The response belongs to another node
// or an earlier process.
type storedEvents struct {
	store    stores.Background
	ctx      context.Context
	user, id string

	lastRead stores.Events // the result of the last read
	failedAt time.Time     // when the store began to fail; zero: it works
}

// maxOutage is how long the store may fail before the readers of events get an error.
const maxOutage = time.Minute

// Next implements [Events]. The parameter from must not be smaller than in the previous call.
func (s *storedEvents) Next(from int64) ([]stores.Event, <-chan struct{}, error) {
	changed := s.store.Watch(s.id) // before the read, so that no change is missed
	if from >= s.end() && !s.lastRead.Over {
		err := s.read(from)
		if errors.Is(err, stores.ErrUnavailable) && s.ctx.Err() == nil && s.outage() < maxOutage {
			return nil, changed, nil // no error, since the store may work again at a later call
		}
		if err != nil {
			return nil, nil, err
		}
	}
	if from < s.end() {
		return s.lastRead.Events[max(0, from-s.lastRead.First):], nil, nil
	}
	if s.lastRead.Over {
		return nil, nil, nil
	}
	return nil, changed, nil
}

// outage is called after a read has failed. It returns for how long the store has failed.
func (s *storedEvents) outage() time.Duration {
	if s.failedAt.IsZero() {
		s.failedAt = time.Now()
	}
	return time.Since(s.failedAt)
}

// end returns the number of the event that follows the last event that was read.
func (s *storedEvents) end() int64 { return s.lastRead.First + int64(len(s.lastRead.Events)) }

// read sets s.lastRead to events from the store. The parameter from is the number of the first one.
func (s *storedEvents) read(from int64) error {
	ctx, cancel := withStoreTimeout(s.ctx)
	defer cancel()
	events, err := s.store.Events(ctx, s.user, s.id, from)
	if err == nil {
		s.lastRead, s.failedAt = events, time.Time{}
	}
	return err
}
