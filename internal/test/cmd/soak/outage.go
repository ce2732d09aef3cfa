package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/planbackend"
)

// outage is a way in which the back end of the plan fails.
type outage struct {
	name string
	// begin lets it fail, until the faults are healed.
	begin func(*planbackend.Backend, *planbackend.Login)
	// codes are those of requests that may fail meanwhile; nil: none may.
	codes map[string]bool
}

// unanswered are the codes of requests that nobody answers.
var unanswered = map[string]bool{
	"upstream_error": true, "upstream_disconnected": true, "codex_idle_timeout": true, "codex_timeout": true, "codex_not_ready": true,
	"server_overloaded": true, "rate_limit_exceeded": true, "codex_forbidden": true, "codex_unauthorized": true, "server_error": true,
}

// accountUnknown are the codes of requests to a Codex that was started meanwhile: it asks the
// model only once it knows the account.
var accountUnknown = map[string]bool{"upstream_disconnected": true, "codex_not_ready": true, "server_error": true}

// fails returns the beginning of an outage of some kinds of calls.
func fails(fault planbackend.Fault, kinds ...planbackend.Kind) func(*planbackend.Backend, *planbackend.Login) {
	return func(b *planbackend.Backend, _ *planbackend.Login) {
		for _, kind := range kinds {
			b.Fail(kind, fault)
		}
	}
}

// outageKinds are made in turn.
var outageKinds = []outage{
	{"nothing is reached", fails(planbackend.Down(), planbackend.All), unanswered},
	{"accounts: 500", fails(planbackend.Status(500), planbackend.Accounts), accountUnknown},
	{"overloaded", fails(planbackend.Status(503), planbackend.Responses, planbackend.Socket), unanswered},
	{"models: silent", fails(planbackend.Silent(), planbackend.Models), nil},
	{"sockets: 403", fails(planbackend.Status(403), planbackend.Socket), nil},
	{"settings: silent", fails(planbackend.Silent(), planbackend.Settings), nil},
	{"limited", fails(planbackend.Status(429).RetryAfter(2*time.Second), planbackend.Responses, planbackend.Socket), unanswered},
	{"limited for long", fails(planbackend.Status(429).RetryAfter(30*time.Second), planbackend.Responses, planbackend.Socket), unanswered},
	{"sockets and a first answer: 500", func(b *planbackend.Backend, _ *planbackend.Login) {
		b.Fail(planbackend.Socket, planbackend.Status(500))
		b.Fail(planbackend.Responses, planbackend.Status(500).For(1))
	}, nil},
	{"one login: limited", func(b *planbackend.Backend, l *planbackend.Login) {
		b.Fail(planbackend.Responses, planbackend.Status(429).RetryAfter(30*time.Second), l)
		b.Fail(planbackend.Socket, planbackend.Status(429).RetryAfter(30*time.Second), l)
	}, nil},
	{"tokens are refused", func(_ *planbackend.Backend, l *planbackend.Login) { l.Refuse() }, nil},
	{"everything: a page", fails(planbackend.HTML(403), planbackend.All), unanswered},
	{"everything: 500", fails(planbackend.Status(500), planbackend.All), unanswered},
	{"accounts: silent", fails(planbackend.Silent(), planbackend.Accounts), accountUnknown},
	{"connections are cut", func(b *planbackend.Backend, _ *planbackend.Login) { b.Cut() }, map[string]bool{"upstream_disconnected": true, "server_error": true}},
	{"tokens are refused, the issuer is slow", func(b *planbackend.Backend, l *planbackend.Login) {
		b.Fail(planbackend.Issuer, planbackend.Late(3*time.Second))
		l.Refuse()
	}, nil},
}

const (
	// backWithin is how long after an outage requests may still fail.
	backWithin = 2 * time.Second
	// maxOutage bounds the length of an outage.
	maxOutage = 12 * time.Second
)

// outageCount counts the outages of a kind.
type outageCount struct {
	times         int
	whole, failed int           // requests that ended meanwhile
	back          time.Duration // the longest time from an end to the next whole answer
}

// outages counts what becomes of requests.
type outages struct {
	mu    sync.Mutex
	kinds [20]outageCount // by the index of outageKinds
	last  *outageCount    // the outage that lasts or was the last; nil: none, or all is well again
	ended time.Time       // of the last; zero: it lasts
}

// begin counts an outage.
func (o *outages) begin(kind int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last, o.ended = &o.kinds[kind], time.Time{}
	o.last.times++
}

func (o *outages) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = time.Now()
}

// answered counts a request that has ended.
func (o *outages) answered(whole bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.last == nil:
	case o.ended.IsZero() && whole:
		o.last.whole++
	case o.ended.IsZero():
		o.last.failed++
	case whole:
		o.last.back = max(o.last.back, time.Since(o.ended))
		o.last = nil
	}
}

// report prints the counts.
func (o *outages) report() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, kind := range outageKinds {
		if c := o.kinds[i]; c.times > 0 {
			fmt.Printf("  %-40s %d times, %d whole, %d failed; answers again after at most %s\n", kind.name, c.times, c.whole, c.failed, c.back.Round(time.Millisecond))
		}
	}
}

// failing lets the back end fail in each way in turn.
func (s *soak) failing(ctx context.Context, r *rand.Rand) {
	plan, login := s.site.model.Plan, s.site.model.Login
	for n := 0; pause(ctx, r, 10*time.Second, 20*time.Second); n++ {
		i := n % len(outageKinds)
		s.outages.begin(i)
		during := s.trouble.begin(maxOutage+backWithin, outageKinds[i].codes, &s.trouble.outages)
		outageKinds[i].begin(plan, login)
		goOn := pause(ctx, r, maxOutage/3, maxOutage)
		plan.Heal()
		s.outages.end()
		s.trouble.extend(during, backWithin)
		if !goOn {
			return
		}
	}
}
