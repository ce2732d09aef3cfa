package planbackend

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// The ids of meters.
const (
	PlanMeter    = "codex"                // of all models without a meter of their own
	SparkMeter   = "codex_bengalfox"      // of SparkModel
	ReserveMeter = "base_model_inference" // of ReserveModel, after the plan's is spent
)

// The models that [Backend.AddMeteredModels] adds.
const (
	SparkModel   = "gpt-5.3-codex-spark"
	LunaModel    = "gpt-6.1-luna"
	ReserveModel = "gpt-reserve" // Luna on the reserve's meter
)

// Meter counts the use of some models.
type Meter struct {
	ID     string
	Name   string // that of the limit; the plan's has none
	Model  string // whose use it counts; empty for the plan's
	Normal string // the slug of the model whose title Model has; empty: its own
	// Primary and Secondary are its windows. Nothing says which one is longer.
	Primary, Secondary Window
	// Spent says that its models must not be used until a window is reset, whatever the percentages.
	Spent bool
}

// Window is a period of a [Meter].
type Window struct {
	Length time.Duration // 0: there is no such window
	Used   float64       // in percent; what is told are whole ones, rounded down
	Resets time.Time     // then Used becomes 0, and the next period begins
	// Capacity is what 100 % cost, in units of [Cost]; 0: answers do not move it.
	Capacity int64
}

// Cost returns what an answer weighs on a meter.
func Cost(used scriptedmodel.Usage) int64 {
	return int64(10*(used.Input-used.Cached) + used.Cached + 80*used.Output)
}

// defaultMeter is the plan's of a new login.
func defaultMeter(use Use) Meter {
	now := time.Now()
	return Meter{
		ID:        PlanMeter,
		Primary:   Window{Length: primaryWindow, Used: float64(use.Primary), Resets: now.Add(primaryWindow / 2)},
		Secondary: Window{Length: secondaryWindow, Used: float64(use.Secondary), Resets: now.Add(secondaryWindow / 2)},
		Spent:     use.Spent,
	}
}

// AllMeters returns the meters of a plan that has all, with nothing used: of the plan, of Spark, and of
// the Luna Reserve, which has one window. 100 % of a window cost capacity; 0: answers do not move them.
func AllMeters(capacity int64) []Meter {
	plan := defaultMeter(Use{})
	spark, reserve := plan, plan
	spark.ID, spark.Name, spark.Model = SparkMeter, "GPT-5.3-Codex-Spark", SparkModel
	reserve.ID, reserve.Name, reserve.Model, reserve.Normal = ReserveMeter, ReserveModel, ReserveModel, LunaModel
	reserve.Primary, reserve.Secondary = reserve.Secondary, Window{}
	all := []Meter{plan, spark, reserve}
	for i := range all {
		for _, w := range all[i].windows() {
			w.Capacity = capacity
		}
	}
	return all
}

func (m *Meter) windows() (all []*Window) {
	for _, w := range []*Window{&m.Primary, &m.Secondary} {
		if w.Length > 0 {
			all = append(all, w)
		}
	}
	return all
}

// Use adds percents to all windows. The meter is spent when one of them is full.
func (m *Meter) Use(percent float64) {
	for _, w := range m.windows() {
		w.Used = min(w.Used+percent, 100)
		m.Spent = m.Spent || w.Used >= 100
	}
}

// Reset begins new periods, as a provider sometimes does before the end of the old ones.
func (m *Meter) Reset() {
	m.Spent = false
	for _, w := range m.windows() {
		w.Used, w.Resets = 0, time.Now().Add(w.Length)
	}
}

// pass begins new periods in the windows whose reset has passed.
func (m *Meter) pass(now time.Time) {
	passed := false
	for _, w := range m.windows() {
		if behind := now.Sub(w.Resets); behind >= 0 {
			w.Used, w.Resets, passed = 0, w.Resets.Add(behind.Truncate(w.Length)+w.Length), true
		}
	}
	if passed {
		m.Spent = slices.ContainsFunc(m.windows(), func(w *Window) bool { return w.Used >= 100 })
	}
}

// resets returns when a spent meter can be used again: the latest reset of its full windows, or the next one.
func (m *Meter) resets() time.Time {
	var full, next time.Time
	for _, w := range m.windows() {
		if w.Used >= 100 && w.Resets.After(full) {
			full = w.Resets
		}
		if next.IsZero() || w.Resets.Before(next) {
			next = w.Resets
		}
	}
	if full.IsZero() {
		return next
	}
	return full
}

// SetMeters replaces the meters of the login, of which the first is the plan's. From then on they
// count and refuse its requests, and are told with each answer.
func (l *Login) SetMeters(meters []Meter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.meters, l.metered = slices.Clone(meters), true
}

// Meters returns the meters of the login as they are now.
func (l *Login) Meters() []Meter {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.now())
}

// Meter returns the meter with this id, or the zero Meter.
func (l *Login) Meter(id string) (found Meter) {
	l.Change(id, func(m *Meter) { found = *m })
	return found
}

// Change changes the meter with this id, if the login has it.
func (l *Login) Change(id string, change func(*Meter)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.now() {
		if l.meters[i].ID == id {
			change(&l.meters[i])
		}
	}
}

// now returns the meters after the resets so far. The caller holds the lock.
func (l *Login) now() []Meter {
	for i := range l.meters {
		l.meters[i].pass(time.Now())
	}
	return l.meters
}

// of returns the meter that counts a model. The caller holds the lock.
func (l *Login) of(model string) *Meter {
	meters := l.now()
	return &meters[max(0, slices.IndexFunc(meters, func(m Meter) bool { return m.Model == model }))]
}

// plan is a [scriptedmodel.Plan] of a login's meters.
type plan struct{ *Login }

// Refuse implements [scriptedmodel.Plan].
func (p plan) Refuse(model string) *scriptedmodel.UsageLimit {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.of(model)
	if !p.metered || !m.Spent {
		return nil
	}
	return &scriptedmodel.UsageLimit{
		ResetsIn: time.Until(m.resets()).Round(time.Second), Plan: p.opts.Plan, Header: p.header(m),
	}
}

// Header implements [scriptedmodel.Plan].
func (p plan) Header(model string) map[string]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.metered {
		return nil
	}
	return p.header(p.of(model))
}

// header returns the headers of an answer by a model of this meter: as x-codex-… those of the meter, then
// those of all meters but the plan's by their names, that of the reserve only if it is used.
func (p plan) header(used *Meter) map[string]string {
	active := used.ID
	if active == PlanMeter {
		active = "premium"
	}
	h := map[string]string{
		"x-codex-active-limit": active, "x-codex-plan-type": p.opts.Plan,
		"x-codex-credits-has-credits": strconv.FormatBool(p.balance != ""), "x-codex-credits-unlimited": "false",
	}
	if p.balance != "" {
		h["x-codex-credits-balance"] = p.balance
	}
	used.family(h, "x-codex-")
	for _, m := range p.meters[1:] {
		if m.ID == ReserveMeter && used.ID != ReserveMeter {
			continue
		}
		family := "x-" + strings.ReplaceAll(m.ID, "_", "-") + "-"
		h[family+"limit-name"] = m.Name
		m.family(h, family)
	}
	return h
}

// family adds the headers of a meter, whose names begin with prefix.
func (m *Meter) family(h map[string]string, prefix string) {
	for place, w := range map[string]Window{"primary-": m.Primary, "secondary-": m.Secondary} {
		h[prefix+place+"window-minutes"] = strconv.Itoa(int(w.Length / time.Minute))
		if w.Length > 0 {
			h[prefix+place+"used-percent"] = strconv.Itoa(w.told())
			h[prefix+place+"reset-at"] = strconv.FormatInt(w.Resets.Unix(), 10)
		}
	}
}

func (w *Window) told() int { return int(math.Floor(w.Used + 1e-9)) }

// Event implements [scriptedmodel.Plan].
func (p plan) Event(model string) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.metered {
		return nil
	}
	m := p.of(model)
	window := func(w Window) any {
		if w.Length == 0 {
			return nil
		}
		return object{"used_percent": w.told(), "window_minutes": int(w.Length / time.Minute), "reset_at": w.Resets.Unix()}
	}
	event := object{
		"type": "codex.rate_limits", "plan_type": p.opts.Plan,
		"rate_limits": object{"primary": window(m.Primary), "secondary": window(m.Secondary)}, "credits": p.credits(),
	}
	if m.ID != PlanMeter {
		event["metered_limit_name"], event["limit_name"] = m.ID, m.Name
	}
	text, _ := json.Marshal(event) // texts and numbers alone
	return text
}

// credits returns what the account has bought. The caller holds the lock.
func (l *Login) credits() object {
	return object{"has_credits": l.balance != "", "unlimited": false, "balance": l.balance}
}

// Count implements [scriptedmodel.Plan].
func (p plan) Count(model string, used scriptedmodel.Usage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.of(model)
	for _, w := range m.windows() {
		if w.Capacity > 0 {
			w.Used += 100 * float64(Cost(used)) / float64(w.Capacity)
			m.Spent = m.Spent || w.Used >= 100
		}
	}
}

// maxTold bounds the answers about the use that a login remembers.
const maxTold = 256

// Told is what the back end has told of a login's meters, and when.
type Told struct {
	At     time.Time
	Meters []Meter
}

// Told returns the last answers of [Usage], oldest first.
func (l *Login) Told() []Told {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.told)
}

// usage answers with what is used of the meters. The reserve is told to clients that know it.
func (b *Backend) usage(w http.ResponseWriter, r *http.Request, login *Login) {
	login.mu.Lock()
	meters := slices.Clone(login.now())
	if r.Header.Get("X-Openai-Codex-Luna-Reserve") != "1" {
		meters = slices.DeleteFunc(meters, func(m Meter) bool { return m.ID == ReserveMeter })
	}
	if login.told = append(login.told, Told{time.Now(), meters}); len(login.told) > maxTold {
		login.told = slices.Delete(login.told, 0, 1)
	}
	answer := object{
		"plan_type": login.opts.Plan, "account_id": login.Account, "user_id": login.User, "email": login.Email,
		"rate_limit": meters[0].limit(), "credits": login.credits(), "rate_limit_reset_credits": object{"available_count": len(login.resets)},
	}
	if login.metered {
		maps.Copy(answer, further(meters))
	}
	login.mu.Unlock()
	writeJSON(w, http.StatusOK, answer)
}

// further returns what is told of a login with several meters.
func further(meters []Meter) object {
	others := []object{}
	told := object{"rate_limit_reached_type": nil, "rate_limit_upsell": nil}
	for _, m := range meters[1:] {
		others = append(others, object{
			"limit_name": m.Name, "metered_feature": m.ID, "normal_model_slug": nilIfEmpty(m.Normal), "rate_limit": m.limit(),
		})
		if m.ID == ReserveMeter && meters[0].Spent && !m.Spent {
			told["rate_limit_upsell"] = object{"banner_type": "luna_reserve"}
		}
	}
	if meters[0].Spent {
		told["rate_limit_reached_type"] = object{"type": "rate_limit_reached"}
	}
	told["additional_rate_limits"] = others
	return told
}

func nilIfEmpty(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// limit returns what is told of a meter when its use is asked for.
func (m *Meter) limit() object {
	window := func(w Window) any {
		if w.Length == 0 {
			return nil
		}
		return object{
			"used_percent": w.told(), "limit_window_seconds": int(w.Length / time.Second),
			"reset_after_seconds": int(time.Until(w.Resets) / time.Second), "reset_at": w.Resets.Unix(),
		}
	}
	return object{
		"allowed": !m.Spent, "limit_reached": m.Spent, "primary_window": window(m.Primary), "secondary_window": window(m.Secondary),
	}
}

// AddMeteredModels adds the models with meters of their own, and Luna, to the list.
func (b *Backend) AddMeteredModels() error {
	add := func(slug, name, like, visibility string) error {
		if err := b.AddModel(slug, like, map[string]any{"display_name": name, "visibility": visibility}); err != nil {
			return fmt.Errorf("adding %s: %w", slug, err)
		}
		return nil
	}
	return errors.Join(
		add(SparkModel, "GPT-5.3-Codex-Spark", "gpt-5.5", "list"),
		add(LunaModel, "GPT-6.1-Luna", "gpt-6-luna", "list"),
		add(ReserveModel, "GPT-6.1-Luna", "gpt-6-luna", "hide"),
	)
}
