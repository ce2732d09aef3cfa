// Package store has the engines that keep what users store: in memory, on a disk, in Redis. The
// engines know nothing of responses and conversations, which the package objects makes of entries.
package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-codex/caddy-codex/internal/claims"
)

// Engine keeps entries of users. The id of an entry has at most 64 lower-case letters, digits and
// `_`, and no id begins with another id. An entry has three parts, and each part has numbered
// records, see [Part].
//
// An Engine is safe for concurrent use. Each method happens as a whole or not at all, even if
// several nodes call it at the same time. After a method has returned without an error, its effect
// lasts as long as the engine does. An error wraps [ErrNotFound] if the entry does not exist, is
// another user's, or is too old. It wraps [ErrUnavailable] if the engine does not work. An engine
// that does not work must not return ErrNotFound: clients would forget the entry.
//
// An engine bounds its size, and gives each user a share: no user may push out another user's
// entries. When there is no room, the oldest or the least recently used entries of a user are
// dropped.
type Engine interface {
	// Put stores an entry. The error is ErrTooLarge if there is no room for the entry, and ErrEnded
	// if the entry has another owner.
	Put(ctx context.Context, user, id string, p *Put) error
	// Read returns a page of a part of an entry. If the page ends the part, further pages may follow,
	// see [Query]. The records must not be changed.
	Read(ctx context.Context, user, id string, q Query) ([]Page, error)
	// Append adds records to an entry, see [Append]. It reports whether somebody wants the owner of
	// the entry to stop. The error is ErrTooLarge if there is no room for items, and ErrEnded if the
	// entry has another owner. Events without room are left out, and so are missing when they are
	// read.
	Append(ctx context.Context, user, id string, a *Append) (cancelled bool, err error)
	// Delete deletes an entry, or only the data of one of its items if item is not Whole. The number
	// of that item remains, with an empty record.
	Delete(ctx context.Context, user, id string, item int64) error
	// Watch returns a channel that is closed when an entry with this id, of any user, has changed or
	// may have changed. Without any change, the channel is closed after WatchTime.
	Watch(id string) <-chan struct{}
	// Lasts reports whether other processes read the entries: other nodes, or the next process.
	Lasts() bool
	// Fails reports whether the engine could not be read or changed when it was last tried.
	Fails() bool
}

// Part is a part of an entry.
type Part string

// The parts of an entry.
const (
	Value  Part = "v" // one record
	Items  Part = "i" // kept as long as the entry
	Events Part = "e" // kept until EventsTime after the last event was added
)

// Put is what [Engine].Put stores.
type Put struct {
	About string   // returned with each page
	Link  string   // the id of another entry, or ""
	Value []byte   // the record of the part Value
	Items [][]byte // the records of the part Items
	// Keep means that only About and Value are stored: the entry keeps its link, items and age. The
	// error is ErrNotFound if there is no such entry.
	Keep bool

	Owner string        // who stores the entry
	Lease time.Duration // how long the owner then owns the entry without renewing the lease
	Begin bool          // true: the entry gets this owner; false: the entry keeps its owner, if any
}

// Append is what [Engine].Append adds.
type Append struct {
	Part    Part
	Records [][]byte
	// Owner is who adds the records. For items, Owner identifies the call: if an engine gets no answer, it
	// makes the call again, and the items are nevertheless added only once.
	Owner string

	// The other fields are for events.

	First int64 // the number of the first record; events that the entry already has are skipped
	// Lease is how long the owner then owns the entry. If it is 0, Owner takes the entry over from
	// an owner whose lease has ended.
	Lease  time.Duration
	Over   bool // no events follow; events of later calls are skipped
	Cancel bool // only asks the owner to stop
}

func (a *Append) renewsOnly() bool {
	return a.Part == Events && len(a.Records) == 0 && a.Lease > 0 && !a.Over && !a.Cancel
}

// Query says what [Engine].Read reads.
type Query struct {
	Part  Part
	From  int64  // the number of the first record
	Limit int64  // the most bytes of records: their data, and RecordOverhead for each
	Links int    // how many pages may follow the first one, each of the entry in the Link of the page before
	Text  string // records without this text are returned empty, but count towards Limit with all their bytes
}

// Page has some records of a part of an entry. There is no gap in them: they stop before a record that
// is missing.
type Page struct {
	ID          string
	About, Link string
	Bytes       int64  // of the value and the items
	Leased      bool   // the owner has a lease
	EndedBy     string // the owner who has added the last event; empty: more may follow
	Next        int64  // the number that the next record of the part will get
	Records     [][]byte
	Larger      int64 // the size of the first record if that is above the limit; else 0
}

const (
	// Whole stands for all of an entry.
	Whole = -1
	// RecordOverhead is the memory of a record besides its data, in bytes.
	RecordOverhead = 64
	// entryOverhead is the memory of an entry besides its records, in bytes.
	entryOverhead = 512
	// EventsTime is how long the events of an entry are kept after the last event.
	EventsTime = time.Hour
	// WatchTime bounds the time until the channel of [Engine].Watch is closed.
	WatchTime = 2 * time.Second
)

// size returns the memory of an entry, in bytes, with the unused capacity of its slices.
func (p *Put) size() int64 {
	return entryOverhead + int64(len(p.About)+len(p.Link)+cap(p.Value)) + sizeOf(p.Items)
}

// sizeOf returns the memory of records, in bytes.
func sizeOf(records [][]byte) (size int64) {
	for _, record := range records {
		size += RecordOverhead + int64(cap(record))
	}
	return size
}

// The errors of engines.
var (
	ErrNotFound    = errors.New("there is no such response")
	ErrTooLarge    = errors.New("the response is too large to be kept")
	ErrUnavailable = errors.New("the store of responses does not work")
	ErrEnded       = errors.New("the response has ended already")
)

// Unavailable returns an error that wraps err and [ErrUnavailable], or nil if err is nil.
func Unavailable(err error) error {
	if err == nil || errors.Is(err, ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// MaxEntry is the largest size of an entry, in bytes, in an engine that is not in memory.
const MaxEntry = 64 << 20

// transferMemory bounds the memory of all large entries that are transferred from or to engines,
// in bytes.
const transferMemory = 4 * MaxEntry

// FreeTransfer is the largest size of an entry, in bytes, for which Reserve never waits.
const FreeTransfer = 256 << 10

var transfers = claims.NewQueue(claims.QueueOptions{
	Concurrent: transferMemory, PerUser: transferMemory / 2, Queue: 4096, Wait: time.Minute,
})

// Reserve waits for the memory of a user's records that are about to be read or written. It returns
// the function that releases the memory. For at most [FreeTransfer] bytes, it reserves nothing.
// Otherwise it reserves twice the size, since the records are in memory encoded and decoded. The
// error wraps ErrUnavailable.
func Reserve(ctx context.Context, user string, size int64) (release func(), err error) {
	if size <= FreeTransfer {
		return func() {}, nil
	}
	memory, err := transfers.Acquire(ctx, user, int(min(2*size, int64(transfers.Heaviest()))))
	if err != nil {
		return nil, Unavailable(err)
	}
	return memory.Release, nil
}

// reserveEntry waits for the memory of size bytes that are to be stored, like [Reserve]. The error is
// ErrTooLarge if they are more than [MaxEntry].
func reserveEntry(ctx context.Context, user string, size int64) (release func(), err error) {
	if size > MaxEntry {
		return nil, ErrTooLarge
	}
	return Reserve(ctx, user, size)
}

// The metrics of the operations on Redis and on the file of a [Disk].
var (
	DurationMetric = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "codex_store_duration_seconds", Help: "Time of an operation on the store.", Buckets: []float64{.001, .004, .016, .064, .256, 1, 4},
	}, []string{"operation"})
	FailuresMetric = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "codex_store_failures_total", Help: "Operations that failed, since the store does not work.",
	}, []string{"operation"})
)

// observe counts an operation that began at this time. An operation that was cancelled by its request
// does not count as failed.
func observe(operation string, begin time.Time, err error) {
	DurationMetric.WithLabelValues(operation).Observe(time.Since(begin).Seconds())
	failures := FailuresMetric.WithLabelValues(operation) // begins at 0, so that the first failure is an increase
	if err != nil && !errors.Is(err, context.Canceled) {
		failures.Inc()
	}
}
