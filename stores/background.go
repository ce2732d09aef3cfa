package stores

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Background is a [Store] in which others than this process find the responses that it makes:
// other nodes, or the next process. The one who has begun a response owns it as long as it
// continues it at least every LeaseTime, by the store's clock. A response whose owner has not is
// lost: whoever reads it makes it one that has failed, see [Lost]. One that has ended never changes.
type Background interface {
	Store
	// Begin stores a response that goes on, which this engine owns from then on: Get returns it
	// as Running. Its end is a Put.
	Begin(ctx context.Context, id string, e *Entry) error
	// Continue adds events to those of a response that it owns, and reports whether somebody
	// wants it cancelled. Events that were added before are left out. The error is ErrEnded if
	// another has made the response a failed one, and ErrNotFound if it is gone.
	Continue(ctx context.Context, user, id string, events Events) (cancelled bool, err error)
	// Cancel asks the owner of a response to cancel it.
	Cancel(ctx context.Context, user, id string) error
	// Events returns some of the events of a response from a number on, without a gap. None are
	// returned as long as there are none, and ErrDropped if they are not kept.
	Events(ctx context.Context, user, id string, from int64) (Events, error)
	// Watch returns a channel that is closed when something has changed with a response of
	// whatever user, or may have. It is closed within WatchTime.
	Watch(id string) <-chan struct{}
}

// Event is one event. It must not be changed.
type Event struct {
	Name string
	Data []byte
}

// Events are events of a response, the first of which has the number First.
type Events struct {
	First  int64
	Events []Event
	Over   bool // there are no others after these
}

const (
	// LeaseTime is how long a response belongs to an owner who does not continue it.
	LeaseTime = 30 * time.Second
	// EventsTime is how long the events of a response are kept after the last one.
	EventsTime = time.Hour
	// WatchTime bounds the time until a look is due again.
	WatchTime = 2 * time.Second
)

// running and lost are how the state of a Response begins that goes on, and of one whose
// server has ended.
var (
	running = []byte(`"status":"in_progress","completed_at":null,"error":null`)
	lost    = []byte(`"status":"failed","completed_at":null,"error":{"code":"server_error","message":` +
		`"The server that made the response has ended before the response did, or could not store it. Please try again."}`)
)

// Lost returns what a lost response becomes, given as its owner has begun it, and its last event,
// which has a number. It may have become that already: a client that had read more events than were
// stored is given the last one with another number.
func Lost(response json.RawMessage, number int64) (failed json.RawMessage, last Event) {
	failed = bytes.Replace(response, running, lost, 1)
	return failed, Event{Name: "response.failed", Data: fmt.Appendf(nil, `{"type":"response.failed","sequence_number":%d,"response":%s}`, number, failed)}
}
