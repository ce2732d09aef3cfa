package responsestore

import (
	"context"
	"errors"
	"strconv"
)

// maxEventBlock is the size that is assumed of a block of events if the storage does not
// report it, in bytes.
const maxEventBlock = 4 << 20

// eventKey returns the key of a block of events.
func eventKey(id string, block int) (string, error) {
	return claimKey(id, "."+strconv.Itoa(block)+".events")
}

// PutEvents implements [Nodes].
func (s *Shared) PutEvents(ctx context.Context, id string, block int, events []byte) error {
	key, err := eventKey(id, block)
	if err != nil {
		return err
	}
	_, err = call(ctx, s, nil, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.storage.Store(ctx, key, events)
	})
	return err
}

// GetEvents implements [Nodes].
func (s *Shared) GetEvents(ctx context.Context, id string, block int) (events []byte, release func(), err error) {
	key, err := eventKey(id, block)
	if err != nil {
		return nil, nil, err
	}
	return s.load(ctx, key, maxEventBlock)
}

// ForgetEvents implements [Nodes].
func (s *Shared) ForgetEvents(ctx context.Context, id string) error {
	for block := 0; ; block++ {
		key, err := eventKey(id, block)
		if err != nil {
			return err
		}
		if found, err := s.exists(ctx, key); !found {
			return err
		}
		if err := s.remove(ctx, key); err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
	}
}

// exists reports whether there is a key.
func (s *Shared) exists(ctx context.Context, key string) (bool, error) {
	return call(ctx, s, nil, func(ctx context.Context) (bool, error) { return s.storage.Exists(ctx, key), nil })
}
