package objects

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-codex/caddy-codex/stores"
)

// failingEvents is a store whose events cannot be read for a while.
type failingEvents struct {
	double
	failsFrom, failsUntil time.Time
}

func (f *failingEvents) Events(_ context.Context, _, _ string, from int64) (stores.Events, error) {
	if now := time.Now(); !now.Before(f.failsFrom) && now.Before(f.failsUntil) {
		return stores.Events{}, fmt.Errorf("%w: for a while", stores.ErrUnavailable)
	}
	return stores.Events{First: from}, nil
}

// TestEventsOutage checks that a reader of events outlives a short outage of the store, and ends in a
// long one.
func TestEventsOutage(t *testing.T) {
	for outage, ends := range map[time.Duration]bool{maxOutage / 2: false, 2 * maxOutage: true} {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now().Add(time.Hour)
			store := &failingEvents{failsFrom: begin, failsUntil: begin.Add(outage)}
			events := &storedEvents{store: store, ctx: t.Context()}
			for time.Since(begin) < 3*maxOutage {
				_, changed, err := events.Next(0)
				if err == nil {
					<-changed
					continue
				}
				if after := time.Since(begin); !ends || !errors.Is(err, stores.ErrUnavailable) || after < maxOutage || after > maxOutage+2*stores.WatchTime {
					t.Errorf("an outage of %s: after %s: %v", outage, after, err)
				}
				return
			}
			if ends {
				t.Errorf("an outage of %s ends no reader", outage)
			}
		})
	}
}
