package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"time"
)

// trouble remembers when something was done on purpose for which requests may
// fail.
type trouble struct {
	mu                    sync.Mutex
	spans                 []span // the last ones
	kills, stops, reloads int
}

// span is a time of trouble.
type span struct{ from, to time.Time }

// How long requests may fail after a codex was killed, and after it was stopped:
// then the turns on it wait until the silence has been noticed.
const (
	killSpan = 10 * time.Second
	stopSpan = 40 * time.Second
	// maxSpans is more than there can be within the time of a request.
	maxSpans = 64
)

func (t *trouble) begin(length time.Duration, count *int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*count++
	now := time.Now()
	t.spans = append(t.spans, span{now, now.Add(length)})
	if len(t.spans) > maxSpans {
		t.spans = t.spans[1:]
	}
}

// during reports whether there was trouble between two times.
func (t *trouble) during(from, to time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.spans {
		if s.from.Before(to) && from.Before(s.to) {
			return true
		}
	}
	return false
}

func (t *trouble) line() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return fmt.Sprintf("%d kills, %d stops, %d reloads", t.kills, t.stops, t.reloads)
}

// pause waits between the two times. It reports whether ctx still runs.
func pause(ctx context.Context, r *rand.Rand, from, to time.Duration) bool {
	timer := time.NewTimer(from + time.Duration(r.Int64N(int64(to-from)+1)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// signalOne sends a signal to one of the app-servers, and returns which; 0 if
// there was none.
func (s *soak) signalOne(r *rand.Rand, signal syscall.Signal, length time.Duration, count *int) int {
	pids := s.site.appServers()
	if len(pids) == 0 {
		return 0
	}
	pid := pids[r.IntN(len(pids))]
	s.trouble.begin(length, count)
	_ = syscall.Kill(pid, signal) // it may have ended meanwhile
	return pid
}

// killing kills an app-server now and then.
func (s *soak) killing(ctx context.Context, r *rand.Rand) {
	for pause(ctx, r, 15*time.Second, 45*time.Second) {
		s.signalOne(r, syscall.SIGKILL, killSpan, &s.trouble.kills)
	}
}

// stopping stops an app-server now and then, which then runs no more but has not
// ended. Caddy has to notice and to put another in its place.
func (s *soak) stopping(ctx context.Context, r *rand.Rand) {
	for pause(ctx, r, 40*time.Second, 60*time.Second) {
		stopped := s.signalOne(r, syscall.SIGSTOP, stopSpan, &s.trouble.stops)
		if !pause(ctx, r, stopSpan, 3*stopSpan) {
			return
		}
		if slices.Contains(s.site.appServers(), stopped) {
			s.counts.fault(fmt.Sprintf("app-server %d was stopped %s ago and has not been replaced", stopped, stopSpan))
			_ = syscall.Kill(stopped, syscall.SIGCONT) // so that the next faults are others
		}
	}
}

// reloading gives Caddy a configuration now and then: the same, one of which a
// setting has changed, or one with other app-servers. For none of them may a
// request fail.
func (s *soak) reloading(ctx context.Context, r *rand.Rand) {
	for pause(ctx, r, 4*time.Second, 12*time.Second) {
		kind := r.IntN(6)
		if err := s.site.reload(ctx, kind == 0, kind < 3); err != nil && ctx.Err() == nil {
			s.counts.fault(fmt.Sprintf("a reload: %v", err))
		}
		s.trouble.mu.Lock()
		s.trouble.reloads++
		s.trouble.mu.Unlock()
	}
}
