package codexrpc

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"
)

// RateLimits are the limits of the account's plan (RateLimitSnapshot).
type RateLimits struct {
	// Primary and Secondary are the plan's windows, for example of five hours
	// and of a week; nil: not known.
	Primary, Secondary *RateWindow
	// Plan is the plan's name, for example "plus"; empty: not known.
	Plan string
	// Reached says which limit keeps the account from working, for example
	// "rate_limit_reached"; empty: none, or not known.
	Reached string
	// LimitID names what is metered, for example "codex".
	LimitID string
	// At is when they were received.
	At time.Time
}

// RateWindow is one of a plan's windows.
type RateWindow struct {
	UsedPercent float64       // 100: it is spent
	Window      time.Duration // its length; 0: not known
	ResetsAt    time.Time     // zero: not known
}

// RetryAt returns when the account can work again: the latest reset of the spent
// windows. It reports false if none is spent, or their resets are not known.
func (l RateLimits) RetryAt(now time.Time) (time.Time, bool) {
	var at time.Time
	for _, w := range []*RateWindow{l.Primary, l.Secondary} {
		if w != nil && w.UsedPercent >= 100 && w.ResetsAt.After(now) && w.ResetsAt.After(at) {
			at = w.ResetsAt
		}
	}
	return at, !at.IsZero()
}

// Tightest returns the window with the highest use; nil: none is known. A window that
// has been reset since is not known any more.
func (l RateLimits) Tightest(now time.Time) (tightest *RateWindow) {
	for _, w := range []*RateWindow{l.Primary, l.Secondary} {
		if w == nil || !w.ResetsAt.IsZero() && !w.ResetsAt.After(now) {
			continue
		}
		if tightest == nil || w.UsedPercent > tightest.UsedPercent {
			tightest = w
		}
	}
	return tightest
}

// LastRateLimits returns the limits that the app-server has reported last; ok is false
// if it has not.
func (c *Conn) LastRateLimits() (last RateLimits, ok bool) { return c.limits.snapshot() }

// RateLimits asks the app-server for the limits of the account's plan, which may
// ask the provider. If it refuses, as it does with a provider that needs no account,
// the limits that came with the model's responses are returned, or else the refusal,
// a *CallError.
func (c *Conn) RateLimits(ctx context.Context) (RateLimits, error) {
	var answer struct {
		RateLimits json.RawMessage `json:"rateLimits"`
	}
	err := c.call(ctx, call{method: methodRateLimitsRead, params: struct{}{}, result: &answer})
	if err == nil {
		c.limits.update(gjson.ParseBytes(answer.RateLimits))
	}
	known, ok := c.limits.snapshot()
	if refused := (*CallError)(nil); err != nil && (!ok || !errors.As(err, &refused)) {
		return RateLimits{}, err
	}
	return known, nil
}

// codeUsageLimit is the code of a turn that failed because the plan is spent.
const codeUsageLimit = "usageLimitExceeded"

// ExplainLimit returns the failure of a turn on this thread with the time at which
// the plan resets, if err is a *TurnError of a spent plan and the time is known.
// Other errors are returned as they are. It takes the limits that came with the
// model's response, or asks the app-server for them.
func (t *Thread) ExplainLimit(ctx context.Context, err error) error {
	var failed *TurnError
	if !errors.As(err, &failed) || failed.Code != codeUsageLimit {
		return err
	}
	known, _ := t.conn.limits.snapshot()
	at, ok := known.RetryAt(time.Now())
	if !ok {
		if known, errRead := t.conn.RateLimits(ctx); errRead == nil {
			at, ok = known.RetryAt(time.Now())
		}
	}
	if !ok {
		return err
	}
	dated := *failed
	dated.ResetsAt = at
	return &dated
}

// limits keeps the plan's limits as a connection received them last.
type limits struct {
	mu    sync.Mutex
	known bool
	last  RateLimits
}

// update merges a RateLimitSnapshot. It is sparse: null means not reported, and
// leaves the earlier value.
func (l *limits) update(v gjson.Result) {
	now := RateLimits{
		Primary:   parseWindow(v.Get("primary")),
		Secondary: parseWindow(v.Get("secondary")),
		Plan:      strings.Clone(v.Get("planType").Str),
		Reached:   strings.Clone(v.Get("rateLimitReachedType").Str),
		LimitID:   strings.Clone(v.Get("limitId").Str),
		At:        time.Now(),
	}
	if now.Primary == nil && now.Secondary == nil && now.Plan == "" && now.Reached == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if before := l.last; l.known && before.LimitID == now.LimitID {
		if now.Primary == nil && now.Secondary == nil {
			now.Primary, now.Secondary, now.Reached = before.Primary, before.Secondary, before.Reached
		}
		if now.Plan == "" {
			now.Plan = before.Plan
		}
	}
	l.last, l.known = now, true
}

// parseWindow reads a RateLimitWindow.
func parseWindow(v gjson.Result) *RateWindow {
	if !v.IsObject() {
		return nil
	}
	w := &RateWindow{
		UsedPercent: v.Get("usedPercent").Float(),
		Window:      time.Duration(v.Get("windowDurationMins").Int()) * time.Minute,
	}
	if at := v.Get("resetsAt").Int(); at > 0 {
		w.ResetsAt = time.Unix(at, 0)
	}
	return w
}

func (l *limits) snapshot() (RateLimits, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last, l.known
}
