package objects

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/responseid"
	"github.com/caddy-codex/caddy-codex/internal/stores"
)

// double is a store of others whose answers a test decides.
type double struct {
	stores.Store
	answer func(call int) (cancelled bool, err error)

	mu    sync.Mutex
	calls int
	begun int
	names []string
	over  bool
}

func (d *double) Begin(context.Context, string, *stores.Entry) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.begun++
	d.names = nil
	return nil
}

func (d *double) Continue(ctx context.Context, _, _ string, events stores.Events) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls++
	cancelled, err := d.answer(d.calls)
	if err == nil {
		if events.First > int64(len(d.names)) {
			d.names = append(d.names, "gap")
		}
		for i, e := range events.Events {
			if events.First+int64(i) >= int64(len(d.names)) {
				d.names = append(d.names, e.Name)
			}
		}
		d.over = events.Over
	}
	return cancelled, err
}

func (d *double) Cancel(context.Context, string, string) error { return nil }

func (d *double) Events(context.Context, string, string, int64, int64) (stores.Events, error) {
	return stores.Events{}, stores.ErrNotFound
}

func (d *double) Watch(string) <-chan struct{} {
	changed := make(chan struct{})
	time.AfterFunc(stores.WatchTime, func() { close(changed) })
	return changed
}

// TestContinue checks that all events of a response are stored once, in their order, whatever the
// store does meanwhile, and that its turn ends when nobody can read it any more.
func TestContinue(t *testing.T) {
	down := fmt.Errorf("%w: for a while", stores.ErrUnavailable)
	for what, c := range map[string]struct {
		answer  func(call int) (bool, error)
		deleted bool // by a client, while the response runs
		begun   int
		all     bool  // all events are stored
		stops   error // the turn
	}{
		"works":     {answer: func(int) (bool, error) { return false, nil }, begun: 1, all: true},
		"fails":     {answer: func(call int) (bool, error) { return false, errorIf(call > 2 && call < 9, down) }, begun: 1, all: true},
		"emptied":   {answer: func(call int) (bool, error) { return false, errorIf(call == 4, stores.ErrNotFound) }, begun: 2, all: true},
		"deleted":   {answer: func(call int) (bool, error) { return false, errorIf(call > 2, stores.ErrNotFound) }, deleted: true, begun: 1, stops: apierror.ErrCancelled},
		"cancelled": {answer: func(call int) (bool, error) { return call == 3, nil }, begun: 1, all: true, stops: apierror.ErrCancelled},
		"lost":      {answer: func(call int) (bool, error) { return false, errorIf(call > 2, stores.ErrEnded) }, begun: 1, stops: apierror.ErrCancelled},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &double{answer: c.answer}
				o := &Objects{Store: store, Running: NewRunning(), Logger: slog.New(slog.DiscardHandler)}
				response := Response{
					ID: responseid.Prefix + responseid.NewSuffix(time.Now()), Entry: &stores.Entry{User: "u"}, Stored: true,
					InProgress: func() json.RawMessage { return json.RawMessage(`{"id":"r"}`) },
				}
				if err := o.Begin(t.Context(), response); err != nil {
					t.Fatal(err)
				}
				_, end := o.Running.Begin(t.Context(), response)
				defer end()
				if c.deleted {
					o.Running.markDeleted("u", response.ID)
				}
				log := newLogs(eventLimits).Open("u", response.ID)
				var stopped error
				finish := o.Continue(response, log, func(cause error) { stopped = cause })
				var want []string
				for i := range 20 {
					name := fmt.Sprint(i)
					want = append(want, name)
					if err := log.Append(name, []byte("{}")); err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Second)
				}
				log.End()
				finish()
				if c.all && (!slices.Equal(store.names, want) || !store.over) {
					t.Errorf("%q, over %t", store.names, store.over)
				}
				if store.begun != c.begun || stopped != c.stops {
					t.Errorf("begun %d times, stopped %v", store.begun, stopped)
				}
			})
		})
	}
}

func errorIf(is bool, err error) error {
	if is {
		return err
	}
	return nil
}

// TestContinueDropped checks that the end of events that could not all be stored says so.
func TestContinueDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &double{answer: func(call int) (bool, error) {
			return false, errorIf(call > 1 && call < 20, fmt.Errorf("%w", stores.ErrUnavailable))
		}}
		o := &Objects{Store: store, Running: NewRunning(), Logger: slog.New(slog.DiscardHandler)}
		response := Response{ID: responseid.Prefix + responseid.NewSuffix(time.Now()), Entry: &stores.Entry{User: "u"}}
		log := newLogs(logLimits{LogBytes: 1000, TotalBytes: 1000, KeepTime: time.Minute}).Open("u", response.ID)
		finish := o.Continue(response, log, func(error) {})
		for range 50 {
			if err := log.Append("e", []byte("0123456789")); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		log.End()
		finish()
		if !store.over || !slices.Contains(store.names, "gap") {
			t.Errorf("%q, over %t", store.names, store.over)
		}
	})
}
