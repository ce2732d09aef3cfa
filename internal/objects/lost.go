package objects

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/caddy-codex/caddy-codex/internal/store"
)

// runningState is the state in the JSON of a response that still runs. lostState replaces it if the
// owner of the response was lost.
var (
	runningState = []byte(`"status":"in_progress","completed_at":null,"error":null`)
	lostState    = []byte(`"status":"failed","completed_at":null,"error":{"code":"server_error","message":` +
		`"The server that made the response has ended before the response did, or could not store it. Please try again."}`)
)

// Lost is called for a response whose owner was lost. It returns the JSON of the failed response, and the
// event of the failure with this number. The parameter response is the JSON of the response, which either
// still says that the response runs, or is already that of the failed response (for lostEvent).
func Lost(response json.RawMessage, number int64) (failed json.RawMessage, last Event) {
	failed = bytes.Replace(response, runningState, lostState, 1)
	return failed, Event{Name: "response.failed", Data: fmt.Appendf(nil, `{"type":"response.failed","sequence_number":%d,"response":%s}`, number, failed)}
}

// lostOwner is the owner of lost responses.
const lostOwner = "lost"

// markLost stores that a response has failed, since its owner does not continue it. It does nothing if the
// response has ended or its owner continues it. It stores first the last event, then the failed response.
// If this process ends between these two steps, the response still counts as running, so its next reader
// takes both steps again. The store then skips the second event: nothing follows the last event.
func (s *Store) markLost(ctx context.Context, user, id string) error {
	pages, err := s.engine.Read(ctx, user, id, store.Query{Part: store.Events, From: math.MaxInt32}) // only for Next
	if err != nil {
		return err
	}
	r, values, err := s.readAll(ctx, user, id, store.Value)
	defer r.release()
	if err != nil || !r.about.Running || r.page.Leased {
		return err
	}
	number := pages[0].Next
	failed, last := Lost(values[0], number)
	_, err = s.engine.Append(ctx, user, id, &store.Append{
		Part: store.Events, First: number, Records: [][]byte{last.record()}, Owner: lostOwner, Over: true,
	})
	if err == nil {
		r.about.Running = false
		err = s.engine.Put(ctx, user, id, &store.Put{About: r.about.encode(), Value: failed, Keep: true, Owner: lostOwner})
	}
	if errors.Is(err, store.ErrEnded) {
		return nil // the owner has continued the response meanwhile
	}
	return err
}

// lostEvent returns the last event of a lost response, for a client that wants an event after all stored
// ones. Such a client has read events that were never stored, so it knows another event with the number of
// the stored last event. The returned event has the number that the client wants: the parameter from.
func (s *Store) lostEvent(ctx context.Context, user, id string, from int64) (EventPage, error) {
	e, err := s.GetObject(ctx, user, id)
	if err != nil {
		return EventPage{}, err
	}
	defer e.Release()
	_, last := Lost(e.Response, from)
	return EventPage{First: from, Events: []Event{last}, Over: true}, nil
}
