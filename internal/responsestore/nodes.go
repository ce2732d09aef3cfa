package responsestore

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/responseid"
)

// Nodes is a [Store] that several nodes share. The node that makes a response keeps a claim
// to it, so that others know that it goes on, and can ask to cancel it.
type Nodes interface {
	Store
	// Claim says that this node goes on making a response, for ClaimTime.
	Claim(ctx context.Context, id string) error
	// Claimed reports whether a node goes on making a response.
	Claimed(ctx context.Context, id string) (bool, error)
	// Cancel asks the node that makes a response to cancel it.
	Cancel(ctx context.Context, id string) error
	// Cancelled reports whether a node has asked for that.
	Cancelled(ctx context.Context, id string) (bool, error)
	// Unclaim says that the response has ended.
	Unclaim(ctx context.Context, id string) error
	// Stored reports whether there is an entry with this id, of whatever user.
	Stored(ctx context.Context, id string) (bool, error)
	// PutEvents stores a block of the events of a response. Blocks are numbered from 0.
	PutEvents(ctx context.Context, id string, block int, events []byte) error
	// GetEvents returns a block, or ErrNotFound. The caller calls release.
	GetEvents(ctx context.Context, id string, block int) (events []byte, release func(), err error)
	// ForgetEvents deletes the blocks of a response.
	ForgetEvents(ctx context.Context, id string) error
}

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
)

// claimKey returns the key of a claim, or of a request to cancel.
func claimKey(id, extension string) (string, error) {
	if !responseid.Valid(id) {
		return "", ErrNotFound
	}
	return claimFolder + "/" + id + extension, nil
}

// Claim implements [Nodes].
func (s *Shared) Claim(ctx context.Context, id string) error {
	return s.mark(ctx, id, claimExtension, s.now().Add(ClaimTime).Format(time.RFC3339Nano))
}

// Cancel implements [Nodes].
func (s *Shared) Cancel(ctx context.Context, id string) error {
	return s.mark(ctx, id, cancelExtension, "cancel")
}

func (s *Shared) mark(ctx context.Context, id, extension, value string) error {
	key, err := claimKey(id, extension)
	if err != nil {
		return err
	}
	_, err = call(ctx, s, nil, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.storage.Store(ctx, key, []byte(value))
	})
	return err
}

// Claimed implements [Nodes].
func (s *Shared) Claimed(ctx context.Context, id string) (bool, error) {
	key, err := claimKey(id, claimExtension)
	if err != nil {
		return false, nil
	}
	value, err := call(ctx, s, nil, func(ctx context.Context) ([]byte, error) { return s.storage.Load(ctx, key) })
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	until, err := time.Parse(time.RFC3339Nano, string(value))
	return err == nil && s.now().Before(until), nil
}

// Cancelled implements [Nodes].
func (s *Shared) Cancelled(ctx context.Context, id string) (bool, error) {
	key, err := claimKey(id, cancelExtension)
	if err != nil {
		return false, nil
	}
	return s.exists(ctx, key)
}

// Stored implements [Nodes].
func (s *Shared) Stored(ctx context.Context, id string) (bool, error) {
	key, err := s.key(id)
	if err != nil {
		return false, nil
	}
	return s.exists(ctx, key)
}

// Unclaim implements [Nodes].
func (s *Shared) Unclaim(ctx context.Context, id string) error {
	var failed error
	for _, extension := range []string{claimExtension, cancelExtension} {
		key, err := claimKey(id, extension)
		if err == nil {
			err = s.remove(ctx, key)
		}
		if err != nil && !errors.Is(err, ErrNotFound) {
			failed = err
		}
	}
	return failed
}

// sweepClaims deletes what nodes have left that have ended suddenly.
func (s *Shared) sweepClaims(ctx context.Context) error {
	keys, err := call(ctx, s, nil, func(ctx context.Context) ([]string, error) { return s.storage.List(ctx, claimFolder, false) })
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	for _, key := range keys {
		id, _, _ := strings.Cut(key[strings.LastIndexByte(key, '/')+1:], ".")
		at, ours := responseid.Time(id)
		if !ours || s.now().Sub(at) < claimsLeft {
			continue
		}
		if removed := s.remove(ctx, key); removed != nil && !errors.Is(removed, ErrNotFound) {
			err = removed
		}
	}
	return err
}

// Interface guard
var _ Nodes = (*Shared)(nil)
