package responsestore

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/responseid"
)

// ClaimTime is how long a claim lasts that is not renewed. The clocks of the nodes may
// differ by much less.
const ClaimTime = 30 * time.Second

const (
	// claimFolder holds the claims, the requests to cancel, and the events.
	claimFolder     = "codex/running"
	claimExtension  = ".claim"
	cancelExtension = ".cancel"
	// claimsLeft is the age at which what a node has left in the folder is deleted.
	claimsLeft = 2 * time.Hour
	// maxEventBlock is the size that is assumed of a block of events if the storage does
	// not report it, in bytes.
	maxEventBlock = 4 << 20
)

// claimKey returns the key of what is kept of a response while it is made.
func claimKey(id, extension string) string {
	if !responseid.Valid(id) {
		id = "none" // nothing has this key
	}
	return claimFolder + "/" + id + extension
}

func eventsExtension(block int) string { return "." + strconv.Itoa(block) + ".events" }

// mark stores a value with the key of a response while it is made.
func (s *Shared) mark(ctx context.Context, id, extension string, value []byte) error {
	if !responseid.Valid(id) {
		return ErrNotFound
	}
	return s.do(ctx, "", nil, func(ctx context.Context) error { return s.storage.Store(ctx, claimKey(id, extension), value) })
}

// Claim says that this node goes on making a response, for ClaimTime. Other nodes that share
// the storage see it, and can ask to cancel the response.
func (s *Shared) Claim(ctx context.Context, id string) error {
	return s.mark(ctx, id, claimExtension, s.now().Add(ClaimTime).AppendFormat(nil, time.RFC3339Nano))
}

// Claimed reports whether a node goes on making a response.
func (s *Shared) Claimed(ctx context.Context, id string) (bool, error) {
	value, err := call(ctx, s, "", nil, func(ctx context.Context) ([]byte, error) {
		return s.storage.Load(ctx, claimKey(id, claimExtension))
	})
	if err != nil {
		return false, unlessMissing(err)
	}
	until, err := time.Parse(time.RFC3339Nano, string(value))
	return err == nil && s.now().Before(until), nil
}

// Cancel asks the node that makes a response to cancel it.
func (s *Shared) Cancel(ctx context.Context, id string) error {
	return s.mark(ctx, id, cancelExtension, []byte("cancel"))
}

// Cancelled reports whether a node has asked for that.
func (s *Shared) Cancelled(ctx context.Context, id string) (bool, error) {
	return s.exists(ctx, claimKey(id, cancelExtension))
}

// Unclaim says that the response has ended.
func (s *Shared) Unclaim(ctx context.Context, id string) error {
	return errors.Join(
		unlessMissing(s.remove(ctx, "", claimKey(id, claimExtension))),
		unlessMissing(s.remove(ctx, "", claimKey(id, cancelExtension))))
}

// Stored reports whether there is an entry with this id, of whatever user.
func (s *Shared) Stored(ctx context.Context, id string) (bool, error) {
	key, err := s.key(id)
	if err != nil {
		return false, nil
	}
	return s.exists(ctx, key)
}

// PutEvents stores a block of the events of a response. Blocks are numbered from 0.
func (s *Shared) PutEvents(ctx context.Context, id string, block int, events []byte) error {
	return s.mark(ctx, id, eventsExtension(block), events)
}

// GetEvents returns a block of events, or ErrNotFound. The caller calls release.
func (s *Shared) GetEvents(ctx context.Context, id string, block int) (events []byte, release func(), err error) {
	return s.load(ctx, "", claimKey(id, eventsExtension(block)), maxEventBlock)
}

// ForgetEvents deletes the blocks of events of a response.
func (s *Shared) ForgetEvents(ctx context.Context, id string) error {
	for block := 0; ; block++ {
		key := claimKey(id, eventsExtension(block))
		if found, err := s.exists(ctx, key); !found {
			return err
		}
		if err := unlessMissing(s.remove(ctx, "", key)); err != nil {
			return err
		}
	}
}

func (s *Shared) exists(ctx context.Context, key string) (bool, error) {
	return call(ctx, s, "", nil, func(ctx context.Context) (bool, error) { return s.storage.Exists(ctx, key), nil })
}

// Update implements [Store].
func (s *Shared) Update(ctx context.Context, user, id string, change func(Entry) (*Entry, error)) error {
	unlock, err := s.lock(ctx, user, id)
	if err != nil {
		return err
	}
	defer unlock()
	changed, err := s.changed(ctx, user, id, change)
	if err != nil {
		return err
	}
	return s.Put(ctx, id, changed)
}

// changed returns an entry with a change. It holds no memory any more: many that each waited for
// the memory to be stored would wait for each other.
func (s *Shared) changed(ctx context.Context, user, id string, change func(Entry) (*Entry, error)) (*Entry, error) {
	e, err := s.Get(ctx, user, id)
	if err != nil {
		return nil, err
	}
	defer e.Release()
	copied := *e
	copied.release = nil
	return change(copied)
}
