package codexrpc

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"time"
)

// RateLimits are the limits of the account's plan (RateLimitSnapshot).
type RateLimits struct {
	// Primary and Secondary are the plan's windows, for example of five hours
	// and of a week; nil: not known.
	Primary, Secondary *RateWindow
	// Plan is the plan's name, for example "plus"; empty: not known.
	Plan string
	// Reached is the reason why the provider refuses the account's requests now, for example
	// "rate_limit_reached"; empty: the provider accepts them, or the reason is not known.
	Reached string
	// LimitID names the product whose use is limited, for example "codex".
	LimitID string
	// Allowed is whether the provider still accepts requests within the plan; nil: not known. If
	// Allowed and the windows disagree, Allowed is right.
	Allowed *bool
	// Credits are what the account has bought beyond its plan; nil: not known.
	Credits *Credits
	// ResetCredits are the credits that can reset the windows; nil: not known.
	ResetCredits *ResetCredits
	// At is when the limits were received.
	At time.Time
}

// Credits are what an account has bought beyond its plan (CreditsSnapshot).
type Credits struct {
	Has       bool   `json:"has_credits"`
	Unlimited bool   `json:"unlimited"`
	Balance   string `json:"balance,omitempty"` // a decimal number; empty: not known
}

// RateWindow is a period in which the plan limits the use, such as five hours.
type RateWindow struct {
	UsedPercent float64       // 100: it is spent
	Window      time.Duration // its length; 0: not known
	ResetsAt    time.Time     // zero: not known
}

// Windows returns the windows that are known, Primary first.
func (l RateLimits) Windows() (known []*RateWindow) {
	for _, w := range []*RateWindow{l.Primary, l.Secondary} {
		if w != nil {
			known = append(known, w)
		}
	}
	return known
}

// Name returns the length of the window, such as "5h" or "7d": in days if it is at least two days,
// else in hours. If the length is not known, Name returns "unknown".
func (w *RateWindow) Name() string {
	const day = 24 * time.Hour
	switch {
	case w.Window <= 0:
		return "unknown"
	case w.Window >= 2*day:
		return strconv.Itoa(int(w.Window.Round(day)/day)) + "d"
	}
	return strconv.Itoa(int(max(w.Window.Round(time.Hour), time.Hour)/time.Hour)) + "h"
}

// RetryAt returns when the account can be used again: the latest reset of its spent windows. It
// returns false if no window is spent, or if the resets are not known.
func (l RateLimits) RetryAt(now time.Time) (time.Time, bool) {
	var at time.Time
	for _, w := range l.Windows() {
		if w.UsedPercent >= 100 && w.ResetsAt.After(now) && w.ResetsAt.After(at) {
			at = w.ResetsAt
		}
	}
	return at, !at.IsZero()
}

// Tightest returns the window with the highest use, or nil if no window is known. It ignores a
// window whose reset is past, since its new use is not known.
func (l RateLimits) Tightest(now time.Time) (tightest *RateWindow) {
	for _, w := range l.Windows() {
		if !w.ResetsAt.IsZero() && !w.ResetsAt.After(now) {
			continue
		}
		if tightest == nil || w.UsedPercent > tightest.UsedPercent {
			tightest = w
		}
	}
	return tightest
}

// LastRateLimits returns the limits that the app-server has reported last. ok is false if it has
// reported none.
func (c *Conn) LastRateLimits() (last RateLimits, ok bool) { return c.session.limits.snapshot() }

// RateLimits asks the app-server for the limits of the account's plan; the app-server may ask the
// provider. If the app-server refuses, for example because the provider needs no account,
// RateLimits returns the limits that came with the model's responses. If there are none, it
// returns the refusal, a *CallError.
func (c *Conn) RateLimits(ctx context.Context) (RateLimits, error) {
	var answer struct {
		RateLimits json.RawMessage `json:"rateLimits"`
		Allowed    *bool           `json:"ordinaryUsageAllowed"`
		Resets     json.RawMessage `json:"rateLimitResetCredits"`
	}
	err := c.call(ctx, call{method: methodRateLimitsRead, params: struct{}{}, result: &answer})
	if err == nil {
		c.session.limits.update(string(answer.RateLimits), answer.Allowed, readResetCredits(answer.Resets))
	}
	known, ok := c.session.limits.snapshot()
	if refused := (*CallError)(nil); err != nil && (!ok || !errors.As(err, &refused)) {
		return RateLimits{}, err
	}
	return known, nil
}

// ExplainLimit finds out when a limit ends. err is the failure of a turn on this thread. If err is
// a *TurnError about a limit and the end of the limit is known, ExplainLimit returns a copy of err
// with ResetsAt; otherwise it returns err as it is. For a spent plan, the time comes from the
// limits that the app-server has reported, else from [Conn.RateLimits], else from the message. For
// other limits, it comes from [Conn.AskedToWait].
func (t *Thread) ExplainLimit(ctx context.Context, err error) error {
	var failed *TurnError
	if !errors.As(err, &failed) {
		return err
	}
	var at time.Time
	switch {
	case failed.Code == CodeUsageLimit:
		at = t.planResets(ctx, failed)
	case failed.HTTPStatus == http.StatusTooManyRequests, failed.HTTPStatus == http.StatusServiceUnavailable, failed.Code == "serverOverloaded":
		at = t.conn.session.limits.askedToWait(ctx)
	}
	if at.IsZero() {
		return err
	}
	dated := *failed
	dated.ResetsAt = at
	return &dated
}

// planResets returns when a spent plan resets; zero: not known.
func (t *Thread) planResets(ctx context.Context, failed *TurnError) time.Time {
	known, _ := t.conn.session.limits.snapshot()
	at, ok := known.RetryAt(time.Now())
	if !ok {
		if known, errRead := t.conn.RateLimits(ctx); errRead == nil {
			at, ok = known.RetryAt(time.Now())
		}
	}
	if !ok {
		at, _ = resetIn(failed.Message, time.Now())
	}
	return at
}

// AskedToWait records that the model's provider has refused a request and asks to wait for d. The
// caller has read this in the app-server's log; no message of the protocol reports it.
func (c *Conn) AskedToWait(d time.Duration) { c.session.limits.ask(time.Now(), d) }

// resetHint captures the time in Codex's message about a spent plan, such as "try again at 8:07 AM"
// or "try again at Nov 23rd, 2026 2:05 PM".
var resetHint = regexp.MustCompile(`try again at (?:([A-Z][a-z]{2} \d{1,2})(?:st|nd|rd|th), (\d{4}) )?(\d{1,2}:\d{2} [AP]M)`)

// resetIn returns the time that a message about a spent plan names. Codex writes the time in the
// local zone, without seconds. Since the plan may reset at any second of that minute, resetIn
// returns the minute's end.
func resetIn(message string, now time.Time) (time.Time, bool) {
	hint := resetHint.FindStringSubmatch(message)
	if hint == nil {
		return time.Time{}, false
	}
	day := hint[1] + " " + hint[2]
	if hint[1] == "" {
		day = now.Format("Jan 2 2006")
	}
	at, err := time.ParseInLocation("Jan 2 2006 3:04 PM", day+" "+hint[3], now.Location())
	if err != nil {
		return time.Time{}, false
	}
	if at = at.Add(time.Minute); hint[1] == "" && at.Before(now) {
		at = at.AddDate(0, 0, 1)
	}
	return at, at.After(now)
}

// limits has the rate limits that a connection has received last, and how long the provider has
// last asked to wait.
type limits struct {
	mu   sync.Mutex
	last RateLimits // At is zero: not known

	asked, until time.Time     // when the provider last asked to wait, and until when to wait
	noted        chan struct{} // closed when the provider asks to wait; nil: no call waits for it
}

const (
	// askedLately bounds the time between the provider's request to wait and a failure that this
	// request explains.
	askedLately = time.Second
	// logLag is how long askedToWait waits for the log line that explains a failure.
	logLag = 20 * time.Millisecond
)

func (l *limits) ask(now time.Time, d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked, l.until = now, now.Add(d)
	if l.noted != nil {
		close(l.noted)
		l.noted = nil
	}
}

// askedToWait returns the time until which the provider has just asked to wait; zero: it has not
// asked. The log line with that request may not have been read yet, so askedToWait waits for the
// line, at most logLag.
func (l *limits) askedToWait(ctx context.Context) time.Time {
	until, noted := l.lately()
	if noted == nil {
		return until
	}
	ctx, cancel := context.WithTimeout(ctx, logLag)
	defer cancel()
	select {
	case <-noted:
	case <-ctx.Done():
	}
	until, _ = l.lately()
	return until
}

// lately returns the time until which the provider has just asked to wait. If the provider has not
// asked within askedLately, lately returns a channel that is closed when it asks.
func (l *limits) lately() (until time.Time, noted <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.asked) < askedLately {
		return l.until, nil
	}
	if l.noted == nil {
		l.noted = make(chan struct{})
	}
	return time.Time{}, l.noted
}

// update merges a RateLimitSnapshot with the earlier one of the same LimitID. If the plan, the
// credits or resets are null, the earlier values stay. If both windows are null, the earlier
// windows and the earlier Reached stay. allowed replaces the earlier value even if it is nil (not
// known), since the earlier value may be wrong by now.
func (l *limits) update(snapshot string, allowed *bool, resets *ResetCredits) {
	var v struct {
		Primary, Secondary                      *rateWindow
		PlanType, RateLimitReachedType, LimitID string
		Credits                                 *struct {
			HasCredits, Unlimited bool
			Balance               string
		}
	}
	_ = json.Unmarshal([]byte(snapshot), &v) // snapshot is JSON; members of other types stay empty
	now := RateLimits{
		Primary: v.Primary.read(), Secondary: v.Secondary.read(), Plan: v.PlanType, Reached: v.RateLimitReachedType,
		LimitID: v.LimitID, Allowed: allowed, ResetCredits: resets, At: time.Now(),
	}
	if v.Credits != nil {
		now.Credits = &Credits{Has: v.Credits.HasCredits, Unlimited: v.Credits.Unlimited, Balance: v.Credits.Balance}
	}
	if now.Primary == nil && now.Secondary == nil && now.Plan == "" && now.Reached == "" && now.Allowed == nil && now.Credits == nil && resets == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if before := l.last; !before.At.IsZero() && before.LimitID == now.LimitID {
		if now.Primary == nil && now.Secondary == nil {
			now.Primary, now.Secondary, now.Reached = before.Primary, before.Secondary, before.Reached
		}
		if now.Plan == "" {
			now.Plan = before.Plan
		}
		if now.Credits == nil {
			now.Credits = before.Credits
		}
		if resets == nil {
			now.ResetCredits = before.ResetCredits
		}
	}
	l.last = now
}

// endOfTime is the year 10000 in Unix seconds. Later times cannot be encoded as JSON.
const endOfTime = 253402300800

// rateWindow is the JSON of a RateWindow (RateLimitWindow).
type rateWindow struct {
	UsedPercent        float64
	WindowDurationMins int64
	ResetsAt           int64
}

func (v *rateWindow) read() *RateWindow {
	if v == nil {
		return nil
	}
	return &RateWindow{UsedPercent: v.UsedPercent, Window: time.Duration(v.WindowDurationMins) * time.Minute, ResetsAt: unixTime(v.ResetsAt)}
}

// unixTime converts Unix seconds to a time. It returns the zero time if they are not positive or
// too large for JSON.
func unixTime(seconds int64) time.Time {
	if seconds <= 0 || seconds >= endOfTime {
		return time.Time{}
	}
	return time.Unix(seconds, 0)
}

func (l *limits) snapshot() (RateLimits, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last, !l.last.At.IsZero()
}
