package usage

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/caddy-codex/caddy-codex/internal/gateway"
)

// otherModel stands for the models of an account beyond maxModels.
const otherModel = "other"

// account is what a user's turns have come to, as it grows and as it is
// stored.
type account struct {
	Totals
	Calls   ToolCalls          `json:"tool_calls"`
	Buffers ToolBuffers        `json:"tool_buffer_metrics"`
	Models  map[string]*Totals `json:"models"`
	Hours   series             `json:"hours"`
	Days    series             `json:"days"`
}

func newAccount() *account { return &account{Models: make(map[string]*Totals)} }

// enter adds a turn.
func (a *account) enter(r gateway.Record) {
	t := totalsOf(r)
	a.Totals.add(t)
	a.Calls.add(toolCallsOf(r))
	a.Buffers.add(toolBuffersOf(r))
	a.addModel(name(r.Model), t)
	now := r.Time.Unix()
	a.Hours = a.Hours.upTo(hours, now).add(hours, now, t)
	a.Days = a.Days.upTo(days, now).add(days, now, t)
}

// add adds another account. now is the present, Unix time in seconds: what is
// later there is left out.
func (a *account) add(b *account, now int64) {
	a.Totals.add(b.Totals)
	a.Calls.add(b.Calls)
	a.Buffers.add(b.Buffers)
	for model, t := range b.Models {
		a.addModel(model, *t)
	}
	for _, s := range b.Hours.upTo(hours, now) {
		a.Hours = a.Hours.add(hours, s.Start, s.Totals)
	}
	for _, s := range b.Days.upTo(days, now) {
		a.Days = a.Days.add(days, s.Start, s.Totals)
	}
}

func (a *account) addModel(model string, t Totals) {
	sum := a.Models[model]
	if sum == nil && len(a.Models) >= maxModels {
		model = otherModel
		sum = a.Models[model]
	}
	if sum == nil {
		sum = new(Totals)
		a.Models[strings.Clone(model)] = sum
	}
	sum.add(t)
}

// clone copies an account, to be read while this one grows.
func (a *account) clone() *account {
	c := *a
	c.Buffers = a.Buffers.clone()
	c.Models = make(map[string]*Totals, len(a.Models))
	for model, t := range a.Models {
		c.Models[model] = new(*t)
	}
	c.Hours, c.Days = slices.Clone(a.Hours), slices.Clone(a.Days)
	return &c
}

// Account is the sum of turns: the body of GET /v1/usage.
type Account struct {
	Object            string        `json:"object"`  // "usage"
	Since             int64         `json:"since"`   // when counting began, Unix time in seconds
	Started           int64         `json:"started"` // when this server started, likewise
	Totals                          // of all
	ToolCalls         ToolCalls     `json:"tool_calls"`
	ToolBufferMetrics ToolBuffers   `json:"tool_buffer_metrics"`
	ByModel           []ModelTotals `json:"by_model"`
	ByHour            []TimeTotals  `json:"by_hour"` // of the last 48 hours, those with turns
	ByDay             []TimeTotals  `json:"by_day"`  // of the last 62 days (UTC), likewise
	ByUser            []UserTotals  `json:"by_user,omitempty"`
}

// ModelTotals are those of one model.
type ModelTotals struct {
	Model string `json:"model"`
	Totals
}

// UserTotals are those of one user.
type UserTotals struct {
	User string `json:"user"`
	Totals
}

// view is an account as clients see it. The lock is held.
func (b *Book) view(a *account) Account {
	now := time.Now().Unix()
	view := Account{
		Object:            "usage",
		Since:             b.since.Unix(),
		Started:           b.started.Unix(),
		Totals:            a.Totals,
		ToolCalls:         a.Calls,
		ToolBufferMetrics: a.Buffers.clone(),
		ByModel:           make([]ModelTotals, 0, len(a.Models)),
		ByHour:            a.Hours.recent(hours, now),
		ByDay:             a.Days.recent(days, now),
	}
	for _, model := range slices.Sorted(maps.Keys(a.Models)) {
		view.ByModel = append(view.ByModel, ModelTotals{model, *a.Models[model]})
	}
	return view
}

// UserName makes a user's name one that can be stored and found again: text, of
// at most 200 bytes. Most names stay as they are. Different names stay different:
// one must not see what is another's. Gateways may send names of any bytes.
func UserName(user string) string {
	if len(user) <= maxName && utf8.ValidString(user) && !strings.HasPrefix(user, "\x00") {
		return user
	}
	sum := sha256.Sum256([]byte(user))
	mark := "#" + hex.EncodeToString(sum[:16])
	begin := user[:min(len(user), maxName-len(mark))]
	return strings.TrimLeft(strings.ToValidUTF8(begin, ""), "\x00") + mark
}

// name bounds a name that is a client's, or a provider's, and makes it text.
func name(model string) string {
	return strings.ToValidUTF8(strings.Clone(model[:min(len(model), maxName)]), "")
}
