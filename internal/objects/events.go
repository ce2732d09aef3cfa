package objects

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/eventlog"
	"github.com/caddy-codex/caddy-codex/internal/responses"
	"github.com/caddy-codex/caddy-codex/internal/responsestore"
)

// Events are the numbered events of a background response. Next is as that of [eventlog.Log].
type Events interface {
	Next(from int64) (events []eventlog.Event, changed <-chan struct{}, err error)
}

// Events returns the events of a background response of the caller from a number on, for the
// time of the request: those that this process keeps, or else those in the store.
func (o *Objects) Events(r *http.Request, id string, from int64) (Events, *apierror.Error) {
	if log := o.Running.Logs.Find(o.User(r), id); log != nil {
		return log, nil
	}
	entry, apiErr := o.entry(r, id)
	if apiErr != nil {
		return nil, apiErr
	}
	entry.Release()
	missing := apierror.NoEvents("stream", ": they are kept of background responses, and for five minutes after their ends")
	if o.nodes() == nil {
		return nil, missing
	}
	stored := &storedEvents{o: o, ctx: r.Context(), user: o.User(r), id: id}
	err := stored.read()
	if errors.Is(err, responsestore.ErrNotFound) {
		_, err = stored.atEnd(from)
	}
	if errors.Is(err, eventlog.ErrDropped) {
		return nil, missing
	}
	return stored, o.apiError(r, err, apierror.ResponseNotFound(id))
}

// forgetEvents deletes the events of a response.
func (o *Objects) forgetEvents(ctx context.Context, id string) {
	o.Running.Logs.Forget(id)
	if nodes := o.nodes(); nodes != nil {
		o.logClaim(ctx, id, nodes.ForgetEvents(ctx, id))
	}
}

// eventWriter stores events in blocks: a line each, with name and data, and an empty one last.
type eventWriter struct {
	nodes *responsestore.Shared
	id    string
	log   *eventlog.Log
	next  int64 // the number of the first event that is in no block
	block int   // the number of the next block
	over  bool  // all are stored, or some were dropped before

	// pending is the next block, until the storage has it: one that it still stores, though
	// nobody waits for that any more, must not replace another of this number.
	pending []byte
}

// write stores the events that there are now.
func (w *eventWriter) write(ctx context.Context) error {
	for !w.over && w.fill() {
		if err := w.nodes.PutEvents(ctx, w.id, w.block, w.pending); err != nil {
			return err
		}
		w.over = string(w.pending) == endBlock
		w.block, w.pending = w.block+1, nil
	}
	return nil
}

// endBlock is the last block.
const endBlock = "\n"

// fill makes the next block, if there is anything to store.
func (w *eventWriter) fill() bool {
	if w.pending != nil {
		return true
	}
	events, changed, err := w.log.Next(w.next)
	switch {
	case err != nil:
		w.over = true // readers see that the end is missing
		return false
	case len(events) > 0:
	case changed != nil:
		return false
	default:
		w.pending = []byte(endBlock)
	}
	for _, e := range events {
		w.pending = append(append(append(append(w.pending, e.Name...), ' '), e.Data...), '\n')
	}
	w.next += int64(len(events))
	return true
}

// storedEvents are the events of a response of another node or of an earlier process.
type storedEvents struct {
	o        *Objects
	ctx      context.Context
	user, id string

	block  int // the number of the next block
	events []eventlog.Event
	first  int64 // the number of the first of events
	over   bool  // there are no others
}

// Next implements [Events]. The numbers that it is given must not decrease.
func (s *storedEvents) Next(from int64) ([]eventlog.Event, <-chan struct{}, error) {
	for {
		if skip := min(from-s.first, int64(len(s.events))); skip > 0 {
			s.events, s.first = s.events[skip:], s.first+skip
		}
		if len(s.events) > 0 || s.over {
			return s.events, nil, nil
		}
		err := s.read()
		if errors.Is(err, responsestore.ErrNotFound) {
			var wait bool
			if wait, err = s.atEnd(from); wait {
				changed := make(chan struct{})
				time.AfterFunc(time.Second, func() { close(changed) })
				return nil, changed, nil
			}
		}
		if err != nil {
			return nil, nil, err
		}
	}
}

// read reads the next block, which follows the events.
func (s *storedEvents) read() error {
	ctx, cancel := timed(s.ctx)
	defer cancel()
	block, release, err := s.o.nodes().GetEvents(ctx, s.id, s.block)
	if err != nil {
		return err
	}
	defer release()
	for line := range bytes.Lines(block) {
		name, data, found := bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte(" "))
		if !found {
			s.over = true
			break
		}
		s.events = append(s.events, eventlog.Event{Name: string(name), Data: data})
	}
	s.block++
	return nil
}

// atEnd is called when there is no next block, and reports whether one may come. For a response
// that was lost with its node it adds the event that says so; from is its number at least.
func (s *storedEvents) atEnd(from int64) (wait bool, err error) {
	ctx, cancel := timed(s.ctx)
	defer cancel()
	claimed, err := s.o.nodes().Claimed(ctx, s.id) // the events are stored before the claim ends
	if claimed || err != nil {
		return claimed, err
	}
	if err := s.read(); !errors.Is(err, responsestore.ErrNotFound) {
		return false, err // the last block came meanwhile
	}
	entry, err := s.o.Store.Get(ctx, s.user, s.id)
	if err != nil {
		return false, err
	}
	defer entry.Release()
	if !entry.Running {
		return false, eventlog.ErrDropped
	}
	s.first = max(s.first, from)
	name, data := responses.LostEvent(s.first, responses.Lost(entry.Response))
	s.events, s.over = append(s.events, eventlog.Event{Name: name, Data: data}), true
	return false, nil
}
