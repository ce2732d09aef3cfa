package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/planbackend"
	"github.com/caddy-codex/caddy-codex/internal/test/rig"
)

// outage is a way in which the back end of the plan fails.
type outage struct {
	name string
	// begin lets it fail, until the faults are healed.
	begin func(*rig.Model)
	// codes are those of requests that may fail meanwhile; nil: none may.
	codes map[string]bool
}

// unanswered are the codes of requests that nobody answers.
var unanswered = map[string]bool{
	"upstream_error": true, "upstream_disconnected": true, "codex_idle_timeout": true, "codex_timeout": true, "codex_not_ready": true,
	"server_overloaded": true, "rate_limit_exceeded": true, "codex_forbidden": true, "codex_unauthorized": true, "server_error": true,
}

// accountUnknown are codes of a Codex that was started meanwhile: first it must know the account.
var accountUnknown = map[string]bool{"upstream_disconnected": true, "codex_not_ready": true, "server_error": true}

// fails returns the beginning of an outage of some kinds of calls.
func fails(fault planbackend.Fault, kinds ...planbackend.Kind) func(*rig.Model) {
	return func(m *rig.Model) {
		for _, kind := range kinds {
			m.Plan.Fail(kind, fault)
		}
	}
}

// refuses returns the start of an outage of the issuer, which is asked since tokens are refused.
func refuses(issuer planbackend.Fault) func(*rig.Model) {
	return func(m *rig.Model) {
		m.Plan.Fail(planbackend.Issuer, issuer)
		m.Login.Refuse()
	}
}

// restingLogins is the outage after which a login may rest for long, so that nobody can answer if the
// other one fails soon after. It is left out of outages that follow each other soon.
const restingLogins = "limited for long"

// outageKinds are made in turn.
var outageKinds = []outage{
	{"nothing is reached", fails(planbackend.Down(), planbackend.All), unanswered},
	{"accounts: 500", fails(planbackend.Status(500), planbackend.Accounts), accountUnknown},
	{"overloaded", fails(planbackend.Status(503), planbackend.Responses, planbackend.Socket), unanswered},
	{"models: silent", fails(planbackend.Silent(), planbackend.Models), nil},
	{"sockets: 403", fails(planbackend.Status(403), planbackend.Socket), nil},
	{"settings: silent", fails(planbackend.Silent(), planbackend.Settings), nil},
	{"limited", fails(planbackend.Status(429).RetryAfter(2*time.Second), planbackend.Responses, planbackend.Socket), unanswered},
	{restingLogins, fails(planbackend.Status(429).RetryAfter(30*time.Second), planbackend.Responses, planbackend.Socket), unanswered},
	{"sockets and a first answer: 500", func(m *rig.Model) {
		m.Plan.Fail(planbackend.Socket, planbackend.Status(500))
		m.Plan.Fail(planbackend.Responses, planbackend.Status(500).For(1))
	}, nil},
	{"one login: limited", func(m *rig.Model) {
		m.Plan.Fail(planbackend.Responses, planbackend.Status(429).RetryAfter(30*time.Second), m.Login)
		m.Plan.Fail(planbackend.Socket, planbackend.Status(429).RetryAfter(30*time.Second), m.Login)
	}, nil},
	{"tokens are refused", func(m *rig.Model) { m.Login.Refuse() }, nil},
	{"everything: a page", fails(planbackend.HTML(403), planbackend.All), unanswered},
	{"everything: 500", fails(planbackend.Status(500), planbackend.All), unanswered},
	{"accounts: silent", fails(planbackend.Silent(), planbackend.Accounts), accountUnknown},
	{"connections are cut", func(m *rig.Model) { m.Plan.Cut() }, map[string]bool{"upstream_disconnected": true, "server_error": true}},
	{"tokens are refused, the issuer is slow", refuses(planbackend.Late(3 * time.Second)), nil},
	{"tokens are refused, the issuer: 500", refuses(planbackend.Status(500)), unanswered},
	{"accounts: 429", fails(planbackend.Status(429), planbackend.Accounts), accountUnknown},
	{"accounts: slow", fails(planbackend.Slow(4*time.Second), planbackend.Accounts), accountUnknown},
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
	longest       time.Duration // of these
	back          time.Duration // the longest time from an end to the next whole answer
}

// outages counts what becomes of requests.
type outages struct {
	mu    sync.Mutex
	kinds []outageCount // by the index of outageKinds
	last  *outageCount  // the outage that lasts or was the last; nil: none, or all is well again
	began time.Time     // of the last
	ended time.Time     // of the last; zero: it lasts
}

func (o *outages) begin(kind int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.kinds == nil {
		o.kinds = make([]outageCount, len(outageKinds))
	}
	o.last, o.began, o.ended = &o.kinds[kind], time.Now(), time.Time{}
	o.last.times++
}

func (o *outages) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = time.Now()
}

// answered counts a request that has ended, and began at a time.
func (o *outages) answered(whole bool, begin time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.last != nil && o.ended.IsZero() && begin.After(o.began) {
		o.last.longest = max(o.last.longest, time.Since(begin))
	}
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

func (o *outages) report() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, c := range o.kinds {
		if c.times > 0 {
			fmt.Printf("  %-40s %d times, %d whole, %d failed, within %s; answers again after at most %s\n", outageKinds[i].name, c.times, c.whole, c.failed,
				c.longest.Round(time.Millisecond), c.back.Round(time.Millisecond))
		}
	}
}

// failing lets the back end fail in each way in turn, with such pauses between.
func (s *soak) failing(ctx context.Context, r *rand.Rand, from, to time.Duration) {
	for n := 0; pause(ctx, r, from, to); n++ {
		i := n % len(outageKinds)
		if s.onlyOutages && outageKinds[i].name == restingLogins {
			continue
		}
		s.outages.begin(i)
		during := s.trouble.begin(maxOutage+backWithin, outageKinds[i].codes, &s.trouble.outages)
		outageKinds[i].begin(s.site.model)
		if s.onlyOutages {
			s.meanwhile(ctx, n%3)
		}
		goOn := pause(ctx, r, maxOutage/3, maxOutage)
		s.site.model.Plan.Heal()
		s.outages.end()
		s.trouble.extend(during, backWithin)
		if !goOn {
			return
		}
	}
}

// meanwhile does what happens in an outage: nothing, a reload of app-servers, or their end.
func (s *soak) meanwhile(ctx context.Context, what int) {
	switch what {
	case 1:
		if err := s.site.reload(ctx, true, false); err != nil && ctx.Err() == nil {
			s.counts.fault(fmt.Sprintf("a reload in an outage: %v", err))
		}
	case 2:
		codes := maps.Clone(inTrouble) // those who are started meanwhile know no login that works
		maps.Copy(codes, unanswered)
		s.trouble.begin(maxOutage+killSpan, codes, &s.trouble.kills)
		for _, pid := range s.site.appServers() {
			_ = syscall.Kill(pid, syscall.SIGKILL) // fails if it has exited
		}
	}
}

// checkLogins returns an error if a token that the issuer has issued is not in the file of its login.
func (s *site) checkLogins() (err error) {
	for home, login := range map[string]*planbackend.Login{s.model.Home: s.model.Login, s.second: s.secondLogin} {
		if login == nil {
			continue
		}
		content, failed := os.ReadFile(filepath.Join(home, "auth.json"))
		if failed == nil && !bytes.Contains(content, []byte(login.Tokens().Refresh)) {
			failed = fmt.Errorf("the login in %s was lost after %d questions to the issuer", home, s.model.Plan.Count(planbackend.Issuer))
		}
		err = errors.Join(err, failed)
	}
	return err
}
