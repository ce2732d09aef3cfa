package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/apiclient"
)

// trouble records when requests may fail, because of what was done to codex and the back end.
type trouble struct {
	mu                             sync.Mutex
	spans                          []*span // the last maxSpans
	kills, stops, reloads, outages int
}

// span is a period of trouble.
type span struct {
	from, to time.Time
	codes    map[string]bool // of the requests that may fail
}

// inTrouble holds the error codes of requests that may fail because codex was killed
// or stopped. server_error is the only one in streams of the Responses API.
var inTrouble = map[string]bool{
	"codex_exited": true, "codex_not_ready": true, "codex_timeout": true, "codex_unresponsive": true,
	"server_error": true,
}

// otherForms are codes of APIs that name less than a cause. They may come if a request may fail.
var otherForms = map[string]bool{
	"api_error": true, "overloaded_error": true, "timeout_error": true, "rate_limit_error": true,
	"permission_error": true, "authentication_error": true, apiclient.OllamaFailure: true,
}

// How long requests may fail after a codex was killed or stopped. Turns on a stopped
// one wait until Caddy notices the silence.
const (
	killSpan = 10 * time.Second
	stopSpan = 40 * time.Second
	// maxSpans is more than can occur during a request.
	maxSpans = 64
)

// begin begins a span of this length, in which requests may fail with these codes. count counts it.
func (t *trouble) begin(length time.Duration, codes map[string]bool, count *int) *span {
	t.mu.Lock()
	defer t.mu.Unlock()
	*count++
	now := time.Now()
	added := &span{now, now.Add(length), codes}
	t.spans = append(t.spans, added)
	if len(t.spans) > maxSpans {
		t.spans = t.spans[1:]
	}
	return added
}

// extend makes a span end this long after now.
func (t *trouble) extend(s *span, length time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.to = time.Now().Add(length)
}

// allows reports whether a request between two times may fail with a code.
func (t *trouble) allows(code string, from, to time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.spans {
		if (s.codes[code] || otherForms[code] && len(s.codes) > 0) && s.from.Before(to) && from.Before(s.to) {
			return true
		}
	}
	return false
}

func (t *trouble) line() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return fmt.Sprintf("%d kills, %d stops, %d reloads, %d outages", t.kills, t.stops, t.reloads, t.outages)
}

// pause waits for a random duration. It returns false if ctx has ended.
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

// signalOne signals one of the app-servers and returns its process id; 0: there is none.
func (s *soak) signalOne(r *rand.Rand, signal syscall.Signal, length time.Duration, count *int) int {
	pids := s.site.appServers()
	if len(pids) == 0 {
		return 0
	}
	pid := pids[r.IntN(len(pids))]
	codes := inTrouble
	if s.meters != nil { // the other login may have nothing left
		codes = maps.Clone(planSpent)
		maps.Copy(codes, inTrouble)
	}
	s.trouble.begin(length, codes, count)
	_ = syscall.Kill(pid, signal) // fails if it has exited
	return pid
}

func (s *soak) killing(ctx context.Context, r *rand.Rand) {
	for pause(ctx, r, 15*time.Second, 45*time.Second) {
		s.signalOne(r, syscall.SIGKILL, killSpan, &s.trouble.kills)
	}
}

// stopping stops an app-server from time to time, with SIGSTOP. Caddy must notice and replace it.
func (s *soak) stopping(ctx context.Context, r *rand.Rand) {
	for pause(ctx, r, 40*time.Second, 60*time.Second) {
		stopped := s.signalOne(r, syscall.SIGSTOP, stopSpan, &s.trouble.stops)
		if !pause(ctx, r, stopSpan, 3*stopSpan) {
			return
		}
		if slices.Contains(s.site.appServers(), stopped) {
			s.counts.fault(fmt.Sprintf("app-server %d was stopped %s ago and has not been replaced", stopped, stopSpan))
			_ = syscall.Kill(stopped, syscall.SIGCONT) // in case Caddy has not killed it
		}
	}
}

// reloading reloads the configuration from time to time, changed or not. No request may fail by it.
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
