package codexrpc

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
)

// RateLimits are the limits of the account's plan (RateLimitSnapshot).
type RateLimits struct {
	// Primary and Secondary are windows, for example of five hours and of a week; nil: not known.
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
	// At is when the limits were received; zero: never.
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
	UsedPercent float64       // 100: the window is spent
	Window      time.Duration // length of the window; 0: not known
	ResetsAt    time.Time     // when the window is reset; zero: not known
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

// Name returns the length, such as "5h" or "7d" (from two days on), or "unknown".
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

// RetryAt returns when the account can be used again: the latest future reset of its spent windows.
// It is zero if no window is spent, or if no future reset of a spent window is known.
func (l RateLimits) RetryAt(now time.Time) (at time.Time) {
	for _, w := range l.Windows() {
		if w.UsedPercent >= 100 && w.ResetsAt.After(now) && w.ResetsAt.After(at) {
			at = w.ResetsAt
		}
	}
	return at
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

// LastRateLimits returns the limits that were reported last. Their At is zero if there are none.
func (c *Conn) LastRateLimits() RateLimits { return c.server.limits.snapshot() }

// RateLimits asks the app-server, which may ask the provider, for the limits of the account's plan. If the
// call fails, RateLimits returns the limits of [Conn.LastRateLimits] and the error: a *CallError if the
// app-server refuses the call, for example because the provider needs no account.
func (c *Conn) RateLimits(ctx context.Context) (RateLimits, error) {
	var answer struct {
		RateLimits json.RawMessage `json:"rateLimits"`
		Allowed    *bool           `json:"ordinaryUsageAllowed"`
		Resets     json.RawMessage `json:"rateLimitResetCredits"`
	}
	err := c.call(ctx, call{method: methodRateLimitsRead, params: struct{}{}, result: &answer})
	if err == nil {
		c.server.limits.update(string(answer.RateLimits), answer.Allowed, readResetCredits(answer.Resets))
	}
	return c.LastRateLimits(), err
}

type limits struct {
	mu   sync.Mutex
	last RateLimits // last.At is zero if no limits are known
}

// update merges a RateLimitSnapshot into the earlier one if both have the same LimitID: null for
// the plan, credits or resets keeps the earlier value, and if both windows are null, the windows
// and Reached stay. Allowed becomes allowed even if that is nil (not known), since the earlier
// value may be wrong by now. If no value is known at all, nothing changes.
func (l *limits) update(snapshot string, allowed *bool, resets *ResetCredits) {
	var v struct {
		Primary, Secondary                      *rateWindow
		PlanType, RateLimitReachedType, LimitID string
		Credits                                 *struct {
			Has       bool `json:"hasCredits"`
			Unlimited bool
			Balance   string
		}
	}
	_ = json.Unmarshal([]byte(snapshot), &v) // snapshot is valid JSON; a member of an unexpected type stays empty
	received := RateLimits{
		Primary: v.Primary.toRateWindow(), Secondary: v.Secondary.toRateWindow(), Plan: v.PlanType, Reached: v.RateLimitReachedType,
		Allowed: allowed, Credits: (*Credits)(v.Credits), ResetCredits: resets,
	}
	if received == (RateLimits{}) {
		return
	}
	received.LimitID, received.At = v.LimitID, time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if earlier := l.last; !earlier.At.IsZero() && earlier.LimitID == received.LimitID {
		if received.Primary == nil && received.Secondary == nil {
			received.Primary, received.Secondary, received.Reached = earlier.Primary, earlier.Secondary, earlier.Reached
		}
		received.Plan = cmp.Or(received.Plan, earlier.Plan)
		received.Credits = cmp.Or(received.Credits, earlier.Credits)
		received.ResetCredits = cmp.Or(resets, earlier.ResetCredits)
	}
	l.last = received
}

// maxUnixTime begins the year 10000 in Unix seconds: from then on times cannot be encoded as JSON.
const maxUnixTime = 253402300800

// rateWindow is the JSON of a RateWindow (RateLimitWindow).
type rateWindow struct {
	UsedPercent        float64
	WindowDurationMins int64
	ResetsAt           int64
}

func (v *rateWindow) toRateWindow() *RateWindow {
	if v == nil {
		return nil
	}
	return &RateWindow{UsedPercent: v.UsedPercent, Window: time.Duration(v.WindowDurationMins) * time.Minute, ResetsAt: unixTime(v.ResetsAt)}
}

// unixTime converts Unix seconds to a time. It returns the zero time if seconds is not positive, or
// too large for JSON.
func unixTime(seconds int64) time.Time {
	if seconds <= 0 || seconds >= maxUnixTime {
		return time.Time{}
	}
	return time.Unix(seconds, 0)
}

func (l *limits) snapshot() RateLimits {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

const (
	methodSpendReset = "account/rateLimitResetCredit/consume"
	// maxSpendError bounds the reason why a reset has failed, in bytes. A longer reason is cut.
	maxSpendError = 300
)

// ResetCredits are an account's saved credits. Each can be spent once to reset the plan's windows.
type ResetCredits struct {
	Available int `json:"available"`
	// ExpiresAt is when the next credit expires; zero: no credit expires, or it is not known.
	ExpiresAt time.Time `json:"expires_at,omitzero"`
}

// readResetCredits reads a RateLimitResetCreditsSummary, or returns nil.
func readResetCredits(summary json.RawMessage) *ResetCredits {
	var v *struct {
		AvailableCount int
		Credits        []struct{ ExpiresAt int64 }
	}
	if err := json.Unmarshal(summary, &v); err != nil || v == nil {
		return nil
	}
	credits := &ResetCredits{Available: v.AvailableCount}
	for _, c := range v.Credits {
		if at := unixTime(c.ExpiresAt); !at.IsZero() && (credits.ExpiresAt.IsZero() || at.Before(credits.ExpiresAt)) {
			credits.ExpiresAt = at.UTC()
		}
	}
	return credits
}

// ResetOutcome is the result of an attempt to reset the windows of a plan.
type ResetOutcome string

// The values of ResetOutcome.
const (
	ResetDone      ResetOutcome = "reset"           // a credit was spent
	ResetUseless   ResetOutcome = "nothingToReset"  // no window needs a reset; no credit was spent
	ResetNoCredit  ResetOutcome = "noCredit"        // the account has no credit
	ResetDoneSince ResetOutcome = "alreadyRedeemed" // an earlier attempt with the same key has spent a credit; this one spent none
)

// SpendResetCredit spends one of the account's credits, which resets the windows of the plan. The
// provider chooses the credit. key must not be empty; a second call with the same key spends no
// second credit. If Codex does not know the method, the error matches [ErrTooOld].
func (c *Conn) SpendResetCredit(ctx context.Context, key string) (ResetOutcome, error) {
	type params struct {
		Key string `json:"idempotencyKey"`
	}
	answer, err := Call[struct{ Outcome ResetOutcome }](ctx, c, methodSpendReset, params{key})
	refused, ok := errors.AsType[*CallError](err)
	switch {
	case ok && (refused.Code == codeMethodNotFound || strings.Contains(refused.Message, "unknown variant")):
		return "", fmt.Errorf("this codex %w to spend reset credits; update it", ErrTooOld)
	case ok: // the returned error omits the body of the provider's answer
		message, _, _ := strings.Cut(refused.Message, "; content-type=")
		return "", fmt.Errorf("codex says: %s", truncate(message, maxSpendError))
	}
	return answer.Outcome, err
}
