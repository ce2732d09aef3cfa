package responsestore

import (
	"bytes"
	"context"
	"time"

	"go.etcd.io/bbolt"

	"github.com/caddy-codex/caddy-codex/internal/eventlog"
	"github.com/caddy-codex/caddy-codex/internal/responseid"
	"github.com/caddy-codex/caddy-codex/internal/responses"
)

// Begin implements [Background].
func (d *Disk) Begin(ctx context.Context, id string, e *Entry) error {
	begun := *e
	begun.Running = true
	return d.put(ctx, id, &begun, true)
}

// Continue implements [Background]. Nobody else can want it cancelled. The response belongs to
// this process as long as that lives.
func (d *Disk) Continue(_ context.Context, user, id string, events Events) (cancelled bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.find(user, id); err != nil {
		return false, err
	}
	if !d.owned[id] {
		return false, ErrEnded
	}
	if len(events.Events) == 0 && !events.Over {
		return false, nil
	}
	err = d.update(func(tx *bbolt.Tx) error {
		a := aboutOf(tx, id)
		if a == nil {
			return ErrNotFound
		}
		for i, e := range events.Events {
			if n := events.First + int64(i); n >= a.Events {
				if err := d.addEvent(tx, id, n, e); err != nil {
					return err
				}
				a.Events = n + 1
			}
		}
		a.Over = events.Over
		return setAbout(tx, id, a)
	})
	if events.Over && err == nil {
		delete(d.owned, id)
	}
	return false, err
}

// addEvent adds an event, and drops those of responses whose events are kept no longer.
func (d *Disk) addEvent(tx *bbolt.Tx, id string, n int64, e eventlog.Event) error {
	b := tx.Bucket(eventBucket)
	if c := b.Cursor(); n == 0 {
		for key, _ := c.First(); key != nil; key, _ = c.Next() {
			at, ok := responseid.Time(string(key[:max(0, len(key)-8)]))
			if ok && d.now().Sub(at) < 2*EventsTime {
				break // ids are in the order of their times
			}
			if err := c.Delete(); err != nil {
				return err
			}
		}
	}
	return b.Put(numbered(id, uint64(n)), append(append([]byte(e.Name), ' '), e.Data...))
}

// Cancel implements [Background].
func (d *Disk) Cancel(_ context.Context, user, id string) error {
	_, err := d.size(user, id)
	return err
}

// Events implements [Background].
func (d *Disk) Events(ctx context.Context, user, id string, from int64) (Events, error) {
	e, err := d.Get(ctx, user, id) // it may be lost
	if err != nil {
		return Events{}, err
	}
	defer e.Release()
	d.mu.Lock()
	owned := d.owned[id]
	d.mu.Unlock()
	events := Events{First: from}
	var a *about
	err = unavailable(d.db.View(func(tx *bbolt.Tx) error {
		a = aboutOf(tx, id)
		c := tx.Bucket(eventBucket).Cursor()
		size, key := 0, numbered(id, uint64(from))
		for at, value := c.Seek(key); bytes.Equal(at, key) && (size == 0 || size+len(value) < 1<<20); at, value = c.Next() {
			name, data, _ := bytes.Cut(value, []byte(" "))
			events.Events = append(events.Events, eventlog.Event{Name: string(name), Data: bytes.Clone(data)})
			size += len(value)
			key = numbered(id, uint64(from)+uint64(len(events.Events)))
		}
		return nil
	}))
	next := from + int64(len(events.Events))
	switch {
	case err != nil:
		return events, err
	case a == nil:
		return events, ErrNotFound
	case a.Lost && from > a.Events:
		return endAhead(from, e), nil
	case len(events.Events) == 0 && (from < a.Events || !a.Over && !owned):
		return events, eventlog.ErrDropped
	}
	events.Over = a.Over && next >= a.Events
	return events, nil
}

// lose makes a response of an earlier process one that has failed.
func (d *Disk) lose(user, id string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.update(func(tx *bbolt.Tx) error {
		e, a := readEntry(bytes.Clone(tx.Bucket(entryBucket).Get([]byte(id)))), aboutOf(tx, id)
		if e == nil || a == nil || e.User != user {
			return ErrNotFound
		}
		if !e.Running || d.owned[id] {
			return nil
		}
		e.Running, e.Response = false, responses.Lost(e.Response)
		value, err := encode(e)
		if err == nil {
			err = tx.Bucket(entryBucket).Put([]byte(id), value)
		}
		if a.Over || err != nil {
			return err // all events are there
		}
		name, data := responses.LostEvent(a.Events, e.Response)
		if err := d.addEvent(tx, id, a.Events, eventlog.Event{Name: name, Data: data}); err != nil {
			return err
		}
		a.Events, a.Over, a.Lost = a.Events+1, true, true
		return setAbout(tx, id, a)
	})
}

// Watch implements [Background]. What another process has made does not change.
func (d *Disk) Watch(string) <-chan struct{} {
	changed := make(chan struct{})
	time.AfterFunc(WatchTime, func() { close(changed) })
	return changed
}
