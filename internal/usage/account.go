package usage

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode/utf8"
)

// otherName is the name of what is counted together since there are too many names, for example of models.
const otherName = "other"

type account struct {
	Totals
	Calls   ToolCalls          `json:"tool_calls"`
	Buffers ToolBuffers        `json:"tool_buffer_metrics"`
	Models  map[string]*Totals `json:"models"`
	Users   map[string]*Totals `json:"users,omitempty"`   // only in the sum of all accounts
	Windows []*window          `json:"windows,omitempty"` // only in the sum of all accounts
	Hours   series             `json:"hours"`
	Days    series             `json:"days"`
}

func (a *account) countTurn(r *Record) {
	t := totalsOf(r)
	a.Totals.add(t)
	a.Calls.add(toolCallsOf(r))
	a.Buffers.add(toolBuffersOf(r))
	if r.Model != "" { // a refused request has none
		entryOf(&a.Models, Shorten(r.Model), maxModels, otherName).add(t)
	}
	now := r.Time.Unix()
	a.Hours = a.Hours.dropFuture(hours, now).add(hours, now, t)
	a.Days = a.Days.dropFuture(days, now).add(days, now, t)
}

// add adds b to a, but no hours and days of b in the future, see [series.dropFuture]. now is in Unix
// seconds.
func (a *account) add(b *account, now int64) {
	a.Totals.add(b.Totals)
	a.Calls.add(b.Calls)
	a.Buffers.add(b.Buffers)
	addAll(&a.Models, b.Models, maxModels, otherName)
	addAll(&a.Users, b.Users, maxUsers, othersAccount)
	a.Windows = addWindows(a.Windows, b.Windows)
	for _, s := range b.Hours.dropFuture(hours, now) {
		a.Hours = a.Hours.add(hours, s.Start, s.Totals)
	}
	for _, s := range b.Days.dropFuture(days, now) {
		a.Days = a.Days.add(days, s.Start, s.Totals)
	}
}

// addAll adds entries to those in to, see [entryOf]. Entries of a stored document may be nil.
func addAll(to *map[string]*Totals, entries map[string]*Totals, most int, rest string) {
	for name, t := range entries {
		if t != nil {
			entryOf(to, name, most, rest).add(*t)
		}
	}
}

// entryOf returns the entry with a name, perhaps a new one. Beyond most entries, all names share the entry rest.
func entryOf[E any](entries *map[string]*E, name string, most int, rest string) *E {
	if (*entries)[rest] != nil { // the entry rest itself does not count
		most++
	}
	if (*entries)[name] == nil && len(*entries) >= most {
		name = rest
	}
	e := (*entries)[name]
	if e == nil {
		if *entries == nil {
			*entries = make(map[string]*E)
		}
		e = new(E)
		(*entries)[strings.Clone(name)] = e
	}
	return e
}

// Account is the body of GET /v1/usage.
type Account struct {
	Object            string        `json:"object"`  // "usage"
	Since             int64         `json:"since"`   // when counting began, in Unix seconds
	Started           int64         `json:"started"` // when this server started, in Unix seconds
	Totals                          // of all turns
	ToolCalls         ToolCalls     `json:"tool_calls"`
	ToolBufferMetrics ToolBuffers   `json:"tool_buffer_metrics"`
	ByModel           []ModelTotals `json:"by_model"`
	ByHour            []TimeTotals  `json:"by_hour"`           // of the last 48 hours, those that had turns
	ByDay             []TimeTotals  `json:"by_day"`            // of the last 62 days (UTC), those that had turns
	ByUser            []UserTotals  `json:"by_user,omitempty"` // only for Everybody
}

// ModelTotals are the totals of one model.
type ModelTotals struct {
	Model string `json:"model"`
	Totals
}

// UserTotals are the totals of one user.
type UserTotals struct {
	User string `json:"user"`
	Totals
}

// UserName turns a user's name, which may be any bytes, into valid UTF-8 of at most maxName bytes that can
// be stored. Only a name that is longer, not valid UTF-8 or begins with a null byte changes. A changed
// name ends with a hash, so that different users never share an account.
func UserName(user string) string {
	if len(user) <= maxName && utf8.ValidString(user) && !strings.HasPrefix(user, "\x00") {
		return user
	}
	sum := sha256.Sum256([]byte(user))
	mark := "#" + hex.EncodeToString(sum[:16])
	begin := user[:min(len(user), maxName-len(mark))]
	return strings.TrimLeft(strings.ToValidUTF8(begin, ""), "\x00") + mark
}

// Shorten returns the beginning of a text that a client or a provider may have made up, such as the name of a
// model: valid UTF-8 of at most 200 bytes.
func Shorten(text string) string { return strings.ToValidUTF8(text[:min(len(text), maxName)], "") }
