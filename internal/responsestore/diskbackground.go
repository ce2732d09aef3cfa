package responsestore

import (
	"bytes"
	"context"
	"time"

	"go.etcd.io/bbolt"

	"github.com/caddy-codex/caddy-codex/internal/responseid"
	"github.com/caddy-codex/caddy-codex/internal/stores"
)

// Begin implements [stores.Background].
func (d *Disk) Begin(ctx context.Context, id string, e *stores.Entry) error {
	begun := *e
	begun.Running = true
	return d.put(ctx, id, &begun, true)
}

// Continue implements [stores.Background]. cancelled is always false: while this process uses the
// file, no other process can cancel the response.
func (d *Disk) Continue(_ context.Context, user, id string, events stores.Events) (cancelled bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.find(user, id); err != nil {
		return false, err
	}
	if !d.ownResponses[id] {
		return false, stores.ErrEnded
	}
	if len(events.Events) == 0 && !events.Over {
		return false, nil
	}
	err = d.update(func(tx *bbolt.Tx) error {
		meta := readMetadata(tx, id)
		if meta == nil {
			return stores.ErrNotFound
		}
		for i, e := range events.Events {
			if n := events.First + int64(i); n >= meta.Events {
				if err := d.addEvent(tx, id, n, e); err != nil {
					return err
				}
				meta.Events = n + 1
			}
		}
		meta.Over = events.Over
		return writeMetadata(tx, id, meta)
	})
	if events.Over && err == nil {
		delete(d.ownResponses, id)
	}
	return false, err
}

// addEvent adds an event. With the first event of a response, it also drops the events of old
// responses.
func (d *Disk) addEvent(tx *bbolt.Tx, id string, n int64, e stores.Event) error {
	b := tx.Bucket(eventBucket)
	if c := b.Cursor(); n == 0 {
		for key, _ := c.First(); key != nil; key, _ = c.Next() {
			at, ok := responseid.Time(string(key[:max(0, len(key)-8)]))
			if ok && d.now().Sub(at) < 2*stores.EventsTime {
				break // the keys are in the order of time, so the remaining events are newer
			}
			if err := c.Delete(); err != nil {
				return err
			}
		}
	}
	return b.Put(numberedKey(id, uint64(n)), append(append([]byte(e.Name), ' '), e.Data...))
}

// Cancel implements [stores.Background].
func (d *Disk) Cancel(_ context.Context, user, id string) error {
	_, err := d.entrySize(user, id)
	return err
}

// Events implements [stores.Background].
func (d *Disk) Events(ctx context.Context, user, id string, from, limit int64) (stores.Events, error) {
	d.mu.Lock()
	_, err := d.find(user, id)
	owned := d.ownResponses[id]
	d.mu.Unlock()
	if err != nil {
		return stores.Events{}, err
	}
	events, meta, err := d.storedEvents(id, from, limit)
	if meta != nil && !meta.Over && !owned {
		e, failure := d.Get(ctx, user, id) // marks a lost response as failed
		if failure != nil {
			return stores.Events{}, failure
		}
		e.Release()
		events, meta, err = d.storedEvents(id, from, limit)
	}
	next := from + int64(len(events.Events))
	switch {
	case err != nil:
		return events, err
	case meta == nil:
		return events, stores.ErrNotFound
	case events.Larger > 0:
		return events, nil
	case meta.Lost && from >= meta.Events: // the client has read more than was stored, see Redis.lostEvent
		e, err := d.Get(ctx, user, id)
		if err != nil {
			return stores.Events{}, err
		}
		defer e.Release()
		_, last := stores.Lost(e.Response, from)
		return stores.Events{First: from, Events: []stores.Event{last}, Over: true}, nil
	case len(events.Events) == 0 && (from < meta.Events || !meta.Over && !owned):
		return events, stores.ErrDropped
	}
	events.Over = meta.Over && next >= meta.Events
	return events, nil
}

// storedEvents reads events of at most limit bytes, and the metadata of their response. meta is nil
// if there is no such response.
func (d *Disk) storedEvents(id string, from, limit int64) (events stores.Events, meta *metadata, err error) {
	events.First = from
	err = stores.Unavailable(d.read(func(tx *bbolt.Tx) error {
		events.Events, events.Larger = nil, 0
		meta = readMetadata(tx, id)
		c := tx.Bucket(eventBucket).Cursor()
		size, key := int64(0), numberedKey(id, uint64(from))
		for at, value := c.Seek(key); bytes.Equal(at, key); at, value = c.Next() {
			name, data, _ := bytes.Cut(value, []byte(" "))
			if size += int64(len(data)) + stores.ItemOverhead; size > limit {
				if len(events.Events) == 0 {
					events.Larger = size
				}
				break
			}
			events.Events = append(events.Events, stores.Event{Name: string(name), Data: bytes.Clone(data)})
			key = numberedKey(id, uint64(from)+uint64(len(events.Events)))
		}
		return nil
	}))
	return events, meta, err
}

// markLost stores that a response of an earlier process has failed. It does nothing if the response
// has ended or this process makes it.
func (d *Disk) markLost(user, id string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.update(func(tx *bbolt.Tx) error {
		e, meta := stores.Decode(bytes.Clone(tx.Bucket(entryBucket).Get([]byte(id)))), readMetadata(tx, id)
		if e == nil || meta == nil || e.User != user {
			return stores.ErrNotFound
		}
		if !e.Running || d.ownResponses[id] {
			return nil
		}
		failed, last := stores.Lost(e.Response, meta.Events)
		e.Running, e.Response = false, failed
		value, err := stores.Encode(e)
		if err == nil {
			err = tx.Bucket(entryBucket).Put([]byte(id), value)
		}
		if meta.Over || err != nil {
			return err // if meta.Over is true, all events are stored already
		}
		if err := d.addEvent(tx, id, meta.Events, last); err != nil {
			return err
		}
		meta.Events, meta.Over, meta.Lost = meta.Events+1, true, true
		return writeMetadata(tx, id, meta)
	})
}

// Watch implements [stores.Background]. The channel is closed only after WatchTime: while this
// process uses the file, no other process can change a response.
func (d *Disk) Watch(string) <-chan struct{} {
	changed := make(chan struct{})
	time.AfterFunc(stores.WatchTime, func() { close(changed) })
	return changed
}
