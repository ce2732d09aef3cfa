package objects

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/store"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// double is an engine whose answers a test decides.
type double struct {
	store.Engine
	answer func(call int) (cancelled bool, err error)

	mu    sync.Mutex
	calls int
	begun int
	names []string
	over  bool
}

func (*double) Lasts() bool { return true }

func (d *double) Put(context.Context, string, string, *store.Put) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.begun++
	d.names = nil
	return nil
}

func (d *double) Append(_ context.Context, _, _ string, a *store.Append) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls++
	cancelled, err := d.answer(d.calls)
	if err == nil {
		if a.First > int64(len(d.names)) {
			d.names = append(d.names, "gap")
		}
		for i, record := range a.Records {
			if a.First+int64(i) >= int64(len(d.names)) {
				name, _, _ := strings.Cut(string(record), " ")
				d.names = append(d.names, name)
			}
		}
		d.over = a.Over
	}
	return cancelled, err
}

func (*double) Watch(string) <-chan struct{} {
	changed := make(chan struct{})
	time.AfterFunc(store.WatchTime, func() { close(changed) })
	return changed
}

// TestContinue checks that all events of a response are stored once, in their order, whatever the
// store does meanwhile, and that its turn ends when nobody can read it any more.
func TestContinue(t *testing.T) {
	down := fmt.Errorf("%w: for a while", store.ErrUnavailable)
	for what, c := range map[string]struct {
		answer  func(call int) (bool, error)
		deleted bool // by a client, while the response runs
		begun   int
		all     bool  // all events are stored
		stops   error // the turn
	}{
		"works":     {answer: func(int) (bool, error) { return false, nil }, begun: 1, all: true},
		"fails":     {answer: func(call int) (bool, error) { return false, errorIf(call > 2 && call < 9, down) }, begun: 1, all: true},
		"emptied":   {answer: func(call int) (bool, error) { return false, errorIf(call == 4, store.ErrNotFound) }, begun: 2, all: true},
		"deleted":   {answer: func(call int) (bool, error) { return false, errorIf(call > 2, store.ErrNotFound) }, deleted: true, begun: 1, stops: apierror.ErrCancelled},
		"cancelled": {answer: func(call int) (bool, error) { return call == 3, nil }, begun: 1, all: true, stops: apierror.ErrCancelled},
		"lost":      {answer: func(call int) (bool, error) { return false, errorIf(call > 2, store.ErrEnded) }, begun: 1, stops: apierror.ErrCancelled},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				engine := &double{answer: c.answer}
				o := objectsIn(storeIn(engine))
				response := Response{
					ID: id(1), Entry: &Entry{User: "u"}, Stored: true,
					InProgress: func() json.RawMessage { return json.RawMessage(`{"id":"r"}`) },
				}
				must.OK(t, o.Begin(t.Context(), response))
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
					log.Append(name, []byte("{}"))
					time.Sleep(time.Second)
				}
				log.End()
				finish()
				if c.all && (!slices.Equal(engine.names, want) || !engine.over) {
					t.Errorf("%q, over %t", engine.names, engine.over)
				}
				if engine.begun != c.begun || stopped != c.stops {
					t.Errorf("begun %d times, stopped %v", engine.begun, stopped)
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
		engine := &double{answer: func(call int) (bool, error) {
			return false, errorIf(call > 1 && call < 20, fmt.Errorf("%w", store.ErrUnavailable))
		}}
		o := objectsIn(storeIn(engine))
		response := Response{ID: id(1), Entry: &Entry{User: "u"}}
		log := newLogs(logLimits{LogBytes: 1000, TotalBytes: 1000, KeepTime: time.Minute}).Open("u", response.ID)
		finish := o.Continue(response, log, func(error) {})
		for range 50 {
			log.Append("e", []byte("0123456789"))
			time.Sleep(time.Second)
		}
		log.End()
		finish()
		if !engine.over || !slices.Contains(engine.names, "gap") {
			t.Errorf("%q, over %t", engine.names, engine.over)
		}
	})
}
