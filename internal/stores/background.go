package stores

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Background is a [Store] that this process shares with other processes: other nodes, or the next
// process on this node. The engine that begins a response owns the response as long as it calls
// Continue at least every LeaseTime, by the store's clock. If the owner stops, the response is
// lost: the next engine that reads the response replaces it by a failed one, see [Lost]. A response
// that has ended never changes.
type Background interface {
	Store
	// Begin stores a response that still runs. From then on, this engine owns the response. Get
	// returns the response as Running until Put stores the ended one.
	Begin(ctx context.Context, id string, e *Entry) error
	// Continue adds events to those of a response that this engine owns, and reports whether
	// Cancel was called for the response. Events that the response already has are skipped. The
	// error is ErrEnded if another engine has made the response a failed one, and ErrNotFound if
	// the response is gone.
	Continue(ctx context.Context, user, id string, events Events) (cancelled bool, err error)
	// Cancel asks the owner of a response to cancel it.
	Cancel(ctx context.Context, user, id string) error
	// Events returns some of the events of a response, without a gap. The parameter from is the
	// number of the first one. If that event has not come yet, Events returns none. The events have
	// at most limit bytes: their data, and ItemOverhead for each. If the first one alone is larger,
	// Events returns none, and the size in Larger. The error is ErrDropped if the events are not
	// kept any more.
	Events(ctx context.Context, user, id string, from, limit int64) (Events, error)
	// Watch returns a channel that is closed when a response with this id, of any user, has changed
	// or may have changed. Without any change, the channel is closed after WatchTime.
	Watch(id string) <-chan struct{}
}

// Event is one event. It must not be changed.
type Event struct {
	Name string
	Data []byte
}

// Events are successive events of a response. First is the number of the first one.
type Events struct {
	First  int64
	Events []Event
	Over   bool  // no events follow these
	Larger int64 // the size of the next event if that is above the limit; else 0
}

const (
	// LeaseTime is how long an engine owns a response without calling Continue.
	LeaseTime = 30 * time.Second
	// EventsTime is how long the events of a response are kept after the last one.
	EventsTime = time.Hour
	// WatchTime bounds the time until the channel of [Background].Watch is closed.
	WatchTime = 2 * time.Second
)

// runningState is the state in the JSON of a response that still runs. lostState replaces it if the
// owner of the response was lost.
var (
	runningState = []byte(`"status":"in_progress","completed_at":null,"error":null`)
	lostState    = []byte(`"status":"failed","completed_at":null,"error":{"code":"server_error","message":` +
		`"The server that made the response has ended before the response did, or could not store it. Please try again."}`)
)

// Lost is called for a response whose owner was lost. It returns the JSON of the failed response,
// and the event of the failure with this number. The parameter response is the JSON of the running
// or of the failed response. Lost gets the failed one if a client has read more events than were
// stored: this client needs the event with another number.
func Lost(response json.RawMessage, number int64) (failed json.RawMessage, last Event) {
	failed = bytes.Replace(response, runningState, lostState, 1)
	return failed, Event{Name: "response.failed", Data: fmt.Appendf(nil, `{"type":"response.failed","sequence_number":%d,"response":%s}`, number, failed)}
}
