// Package responsestore stores the responses and conversations of the Responses API, so that
// clients can read and delete them and continue from them.
//
// There are three engines. [Memory] is bounded in bytes, [Disk] is that too and outlives the
// process, and [Redis] is what several nodes share. What an engine has belongs to the user who
// made it, does not exist for others, and is deleted at an age.
package responsestore

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/eventlog"
)

// Store keeps entries by the ids of their responses and conversations. It is safe for concurrent
// use. An entry that does not exist, or is another user's, is ErrNotFound; a store that does not
// work is ErrUnavailable, and never ErrNotFound.
type Store interface {
	// Put stores an entry; the input of a conversation is its items. The error is ErrTooLarge if
	// it does not fit, and ErrEnded if the response has ended elsewhere.
	Put(ctx context.Context, id string, e *Entry) error
	// Get returns an entry of a user, which the caller releases.
	Get(ctx context.Context, user, id string) (*Entry, error)
	// Chain returns a response, or a conversation, and the responses that it follows, the last one
	// first, in one round trip. next is the id of the first one that does not exist, empty if
	// there is none. The error is ErrTooLong or ErrNoMemory if room does not suffice.
	Chain(ctx context.Context, user, id string, room *Room) (links []Link, next string, err error)
	// Delete deletes an entry of a user.
	Delete(ctx context.Context, user, id string) error

	// Append adds items to a conversation. What several callers append at the same time is all
	// there in the end, the items of each together. The error is ErrTooLarge if they do not fit.
	Append(ctx context.Context, user, id string, items []json.RawMessage) error
	// RemoveItem removes an item of a conversation, which is given as it was read.
	RemoveItem(ctx context.Context, user, id string, item json.RawMessage) error
	// SetObject replaces the object of a conversation.
	SetObject(ctx context.Context, user, id string, object json.RawMessage) error
}

// Background is a [Store] in which others than this process find the responses that it makes:
// other nodes, or the next process. The one who has begun a response owns it as long as it
// continues it at least every LeaseTime. A response whose owner has not is lost: whoever reads
// it makes it one that has failed. One that has ended never changes.
type Background interface {
	Store
	// Begin stores a response that goes on, which this engine owns from then on. Its end is a Put.
	Begin(ctx context.Context, id string, e *Entry) error
	// Continue adds events to those of a response that it owns, and reports whether somebody
	// wants it cancelled. Events that were added before are left out. The error is ErrEnded if
	// another has made the response a failed one, and ErrNotFound if it is gone.
	Continue(ctx context.Context, user, id string, events Events) (cancelled bool, err error)
	// Cancel asks the owner of a response to cancel it.
	Cancel(ctx context.Context, user, id string) error
	// Events returns the events of a response from a number on. None are returned as long as
	// there are none, and ErrDropped if they are not kept.
	Events(ctx context.Context, user, id string, from int64) (Events, error)
	// Watch returns a channel that is closed when something has changed with a response of
	// whatever user, or may have. It is closed within WatchTime.
	Watch(id string) <-chan struct{}
}

// Events are events of a response, the first of which has the number First.
type Events struct {
	First  int64
	Events []eventlog.Event
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

// maxEntry bounds one entry of [Disk] and [Redis], in bytes.
const maxEntry = 64 << 20

// Link is a response of a chain, or a conversation.
type Link struct {
	ID           string
	Conversation string            // that the response belongs to, if any
	Items        []json.RawMessage // as the next request needs them; the caller's own
}

// The errors of stores and readers.
var (
	ErrNotFound       = errors.New("there is no such response")
	ErrTooLarge       = errors.New("the response is too large to be kept")
	ErrTooLong        = errors.New("there are too many responses before, or they are too large")
	ErrNoMemory       = errors.New("there is no memory for the items")
	ErrInConversation = errors.New("the response belongs to a conversation")
	ErrUnavailable    = errors.New("the store of responses does not work")
	ErrEnded          = errors.New("the response has ended already")
)
