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

// RateLimits are the limits of the account's plan, as Codex knows them
// (RateLimitSnapshot).
type RateLimits struct {
	// Primary and Secondary are the plan's windows, for example of five hours
	// and of a week. Nil: not known.
	Primary, Secondary *RateWindow
	// Plan is the plan's name, for example "plus"; empty: not known.
	Plan string
	// Reached says which limit keeps the account from working, for example
	// "rate_limit_reached"; empty: none, or not known.
	Reached string
	// LimitID names what is metered, for example "codex".
	LimitID string
	// At is when Codex told this.
	At time.Time
}

// RateWindow is one of a plan's windows.
type RateWindow struct {
	UsedPercent float64       // 100: it is spent
	Window      time.Duration // its length; 0: not known
	ResetsAt    time.Time     // when it begins anew; zero: not known
}

// RetryAt is when the account can work again: the last reset of the windows
// that are spent. It reports false if none is, or nobody knows until when.
func (l RateLimits) RetryAt(now time.Time) (time.Time, bool) {
	var at time.Time
	for _, w := range []*RateWindow{l.Primary, l.Secondary} {
		if w != nil && w.UsedPercent >= 100 && w.ResetsAt.After(now) && w.ResetsAt.After(at) {
			at = w.ResetsAt
		}
	}
	return at, !at.IsZero()
}

// RateLimits asks for the limits of the account's plan, which Codex may have to
// ask the provider for. When it refuses, as it does with a provider that needs
// no account, the answer is what it has told on its own, with the responses of
// the model, or else the refusal, a *CallError.
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

// ExplainLimit completes the failure of a turn on this thread: a *TurnError of
// a spent plan that does not tell when the plan resets gets that from the
// account's limits, if they tell. Any other error is returned as it is. It may
// take a call, and so as long as ctx.
func (t *Thread) ExplainLimit(ctx context.Context, err error) error {
	var failed *TurnError
	if !errors.As(err, &failed) || failed.Code != codeUsageLimit || !failed.ResetsAt.IsZero() {
		return err
	}
	known, errRead := t.conn.RateLimits(ctx)
	if errRead != nil {
		return err
	}
	if at, ok := known.RetryAt(time.Now()); ok {
		dated := *failed
		dated.ResetsAt = at
		return &dated
	}
	return err
}

// limits keeps the last that a connection was told of the plan's limits. The
// zero limits know nothing.
type limits struct {
	mu    sync.Mutex
	known bool
	last  RateLimits
}

// update takes a RateLimitSnapshot. It is sparse: what is null was not told, and
// says nothing about what was told before.
func (l *limits) update(v gjson.Result) {
	told := RateLimits{
		Primary:   parseWindow(v.Get("primary")),
		Secondary: parseWindow(v.Get("secondary")),
		Plan:      strings.Clone(v.Get("planType").Str),
		Reached:   strings.Clone(v.Get("rateLimitReachedType").Str),
		LimitID:   strings.Clone(v.Get("limitId").Str),
		At:        time.Now(),
	}
	if told.Primary == nil && told.Secondary == nil && told.Plan == "" && told.Reached == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if before := l.last; l.known && before.LimitID == told.LimitID {
		if told.Primary == nil && told.Secondary == nil {
			told.Primary, told.Secondary, told.Reached = before.Primary, before.Secondary, before.Reached
		}
		if told.Plan == "" {
			told.Plan = before.Plan
		}
	}
	l.last, l.known = told, true
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

// codeUsageLimit is the code of a turn that failed because the plan is spent.
const codeUsageLimit = "usageLimitExceeded"

// date puts onto the failure of a spent plan when that resets, where the limits
// of the same response tell.
func (l *limits) date(e *TurnError) {
	if e.Code != codeUsageLimit {
		return
	}
	known, _ := l.snapshot()
	e.ResetsAt, _ = known.RetryAt(time.Now())
}
