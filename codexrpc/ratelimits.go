package codexrpc

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// RateLimits are what the provider says of the limits of a login's plan (GetAccountRateLimitsResponse).
type RateLimits struct {
	// Meters has the plan's own meter, perhaps without windows, and then the others by their ids.
	Meters []Meter
	// Account is the id of the account; empty: not known.
	Account string
	// Plan is the plan's name, for example "plus"; empty: not known.
	Plan string
	// Allowed is whether the provider still accepts requests within the plan's own meter; nil: not known.
	// If Allowed and the windows disagree, Allowed is right.
	Allowed *bool
	// Credits are what the account has bought beyond its plan; nil: not known.
	Credits *Credits
	// ResetCredits are the credits that can reset the windows; nil: not known.
	ResetCredits *ResetCredits
	// LunaReserve is whether the provider offers the model [ReserveModel] now, since the plan is spent.
	LunaReserve bool
	// At is when the limits were received.
	At time.Time
}

// PlanMeter is the id of the plan's own meter, which counts each model without a meter of its own.
const PlanMeter = "codex"

// ReserveModel is the model, and the name of the meter, of the Luna Reserve: some plans serve it when their
// own meter is spent.
const ReserveModel = "gpt-reserve"

// Meter counts the use of some models against limits of its own (RateLimitSnapshot).
type Meter struct {
	ID string // PlanMeter, or for example "codex_bengalfox"
	// Name is the name of the model that the meter counts, for example "GPT-5.3-Codex-Spark"; empty for the plan.
	Name string
	// Model is another name of that model; empty: there is none.
	Model string
	// Primary and Secondary are windows, for example of five hours and of a week; nil: not known.
	Primary, Secondary *RateWindow
	// Reached is the reason why the provider refuses the meter's models now, for example
	// "rate_limit_reached"; empty: the provider accepts them, or the reason is not known.
	Reached string
}

// Meter returns the meter that counts a model. It is nil if that is not known.
func (l *RateLimits) Meter(model string) *Meter {
	if l == nil || len(l.Meters) == 0 {
		return nil
	}
	for i := range l.Meters {
		if m := &l.Meters[i]; m.ID != PlanMeter && model != "" && (strings.EqualFold(m.Name, model) || strings.EqualFold(m.Model, model)) {
			return m
		}
	}
	return &l.Meters[0]
}

// MeterID is like Meter, but returns the ID: PlanMeter if it is not known.
func (l *RateLimits) MeterID(model string) string {
	if meter := l.Meter(model); meter != nil {
		return meter.ID
	}
	return PlanMeter
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

// Over reports whether the window has been reset since its use was told, so that its use is not known now.
func (w *RateWindow) Over(now time.Time) bool { return !w.ResetsAt.IsZero() && !w.ResetsAt.After(now) }

// Windows returns the windows that are known, Primary first. A nil Meter has none.
func (m *Meter) Windows() []*RateWindow {
	if m == nil {
		return nil
	}
	return slices.DeleteFunc([]*RateWindow{m.Primary, m.Secondary}, func(w *RateWindow) bool { return w == nil })
}

// Name returns the length, such as "30m", "5h" or "7d" (from two days on), or "unknown".
func (w *RateWindow) Name() string {
	const day = 24 * time.Hour
	switch {
	case w.Window <= 0:
		return "unknown"
	case w.Window >= 2*day:
		return strconv.Itoa(int(w.Window.Round(day)/day)) + "d"
	case w.Window < time.Hour:
		return strconv.Itoa(int(w.Window.Minutes())) + "m"
	}
	return strconv.Itoa(int(w.Window.Round(time.Hour)/time.Hour)) + "h"
}

// ResetSince reports whether a window has been reset since a time.
func (m *Meter) ResetSince(at time.Time) bool {
	return slices.ContainsFunc(m.Windows(), func(w *RateWindow) bool { return w.Over(time.Now()) && w.ResetsAt.After(at) })
}

// Spent reports whether a window of the meter is used up, and when the meter can be used again: at the
// latest future reset of these windows; zero: not known. A window that is over does not count.
func (m *Meter) Spent(now time.Time) (resets time.Time, spent bool) {
	for _, w := range m.Windows() {
		if w.UsedPercent < 100 || w.Over(now) {
			continue
		}
		spent = true
		if w.ResetsAt.After(resets) {
			resets = w.ResetsAt
		}
	}
	return resets, spent
}

// RateLimits asks the app-server, which asks the provider, for the limits of the account's plan. With reserve,
// the provider also tells of the Luna Reserve, as it does to clients that can use it. Notifications of the
// app-server say that the limits have changed, see [Conn.LimitChanges]; they do not say reliably which meter.
// The error is a *CallError if the app-server refuses the call, for example because the provider needs no account.
func (c *Conn) RateLimits(ctx context.Context, reserve bool) (*RateLimits, error) {
	var params struct {
		Reserve bool `json:"supportsLunaReserve,omitempty"`
	}
	params.Reserve = reserve
	var answer struct {
		RateLimits           snapshot
		RateLimitsByLimitID  map[string]*snapshot
		OrdinaryUsageAllowed *bool
		RateLimitResets      json.RawMessage `json:"rateLimitResetCredits"`
		AccountID            string
		RateLimitUpsell      struct {
			BannerType string `json:"banner_type"`
		}
	}
	var text json.RawMessage
	if err := c.call(ctx, call{method: methodRateLimitsRead, params: params, result: &text}); err != nil {
		return nil, err
	}
	_ = json.Unmarshal(text, &answer) // text is valid JSON; a member of an unexpected type stays empty
	plan := &answer.RateLimits
	limits := &RateLimits{
		Account: answer.AccountID, Plan: plan.PlanType, Allowed: answer.OrdinaryUsageAllowed, Credits: (*Credits)(plan.Credits),
		Meters: []Meter{plan.meter(PlanMeter)}, ResetCredits: readResetCredits(answer.RateLimitResets), LunaReserve: reserve && answer.RateLimitUpsell.BannerType == "luna_reserve", At: time.Now(),
	}
	for _, id := range slices.Sorted(maps.Keys(answer.RateLimitsByLimitID)) {
		if further := answer.RateLimitsByLimitID[id]; further != nil && id != cmp.Or(plan.LimitID, PlanMeter) && id != PlanMeter && len(id) <= maxMeterName && len(limits.Meters) < maxMeters {
			limits.Meters = append(limits.Meters, further.meter(id))
		}
	}
	return limits, nil
}

// LimitChanges returns how often the app-server has said that the limits of the plan have changed.
func (c *Conn) LimitChanges() int64 { return c.server.limitChanges.Load() }

// maxMeters bounds the meters of a login.
const maxMeters = 16

// snapshot is the JSON of a Meter (RateLimitSnapshot).
type snapshot struct {
	LimitID, LimitName, PlanType, RateLimitReachedType string
	Primary, Secondary                                 *rateWindow
	NormalModelSlug                                    string
	Credits                                            *struct {
		Has       bool `json:"hasCredits"`
		Unlimited bool
		Balance   string
	}
}

func (v *snapshot) meter(id string) Meter {
	m := Meter{ID: strings.Clone(id), Name: truncate(v.LimitName, maxMeterName), Primary: v.Primary.toRateWindow(), Secondary: v.Secondary.toRateWindow(), Reached: v.RateLimitReachedType}
	if v.LimitName != ReserveModel { // the reserve names the model in whose place it serves
		m.Model = truncate(v.NormalModelSlug, maxMeterName)
	}
	return m
}

// maxMeterName bounds the id and the name of a meter, in bytes.
const maxMeterName = 100

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
// second credit.
func (c *Conn) SpendResetCredit(ctx context.Context, key string) (ResetOutcome, error) {
	type params struct {
		Key string `json:"idempotencyKey"`
	}
	answer, err := Call[struct{ Outcome ResetOutcome }](ctx, c, methodSpendReset, params{key})
	if refused, ok := errors.AsType[*CallError](err); ok { // the returned error omits the body of the provider's answer
		message, _, _ := strings.Cut(refused.Message, "; content-type=")
		return "", fmt.Errorf("codex says: %s", truncate(message, maxSpendError))
	}
	return answer.Outcome, err
}
