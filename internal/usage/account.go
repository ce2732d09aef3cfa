package usage

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

type account struct {
	part
	Calls   ToolCalls        `json:"tool_calls"`
	Buffers ToolBuffers      `json:"tool_buffer_metrics"`
	Keys    map[string]*part `json:"keys,omitempty"`
	Models  map[string]*part `json:"models"`
	APIs    map[string]*part `json:"apis,omitempty"`
	Meters  map[string]*part `json:"meters,omitempty"`
	Users   map[string]*part `json:"users,omitempty"`   // without days; only in the sum of all accounts
	Windows []*window        `json:"windows,omitempty"` // only in the sum of all accounts
	Hours   series           `json:"hours"`
}

// parts returns the lists of parts. mostParts are the most parts of each.
func (a *account) parts() [5]*map[string]*part {
	return [...]*map[string]*part{&a.Keys, &a.Models, &a.APIs, &a.Meters, &a.Users}
}

var mostParts = [...]int{maxKeys, maxModels, maxAPIs, maxModels, maxUsers}

// part is the use by one key, with one model, and so on.
type part struct {
	Totals
	Days series `json:"days"`
}

func (p *part) countTurn(t Totals, now int64) {
	p.Totals.add(t)
	p.Days = p.Days.dropFuture(days, now).add(days, now, t)
}

// add adds q to p, but no days in the future, see [series.dropFuture].
func (p *part) add(q *part, now int64) {
	p.Totals.add(q.Totals)
	for _, s := range q.Days.dropFuture(days, now) {
		p.Days = p.Days.add(days, s.Start, s.Totals)
	}
}

// since returns the totals of the days from start on; 0: of all time.
func (p *part) since(start int64) (t Totals) {
	if start == 0 {
		return p.Totals
	}
	for _, day := range p.Days {
		if day.Start >= start {
			t.add(day.Totals)
		}
	}
	return t
}

func (a *account) countTurn(r *Record) {
	t, now := totalsOf(r), r.Time.Unix()
	a.part.countTurn(t, now)
	a.Calls.add(ToolCalls{Total: int64(r.Tools.Calls), Duplicates: int64(r.Tools.Duplicates), Unwritable: int64(r.Tools.Unwritable)})
	if r.Tools.Truncated {
		a.Calls.Truncated++
	}
	a.Buffers.add(ToolBuffers{Started: int64(r.Tools.Started), Flushed: int64(r.Tools.Flushed)})
	for reason, n := range r.Tools.Aborted {
		a.Buffers.add(ToolBuffers{Aborted: int64(n), ByReason: map[string]int64{string(reason): int64(n)}})
	}
	a.Hours = a.Hours.dropFuture(hours, now).add(hours, now, t)
	for i, name := range [...]string{r.keyName(), Shorten(r.Model), r.Route, Shorten(r.Meter)} {
		if name != "" || i == 0 { // a refused request has no model and no meter
			entryOf(a.parts()[i], name, mostParts[i]).countTurn(t, now)
		}
	}
}

// add adds b to a, but no hours and days of b in the future, see [series.dropFuture]. now is in Unix
// seconds.
func (a *account) add(b *account, now int64) {
	a.part.add(&b.part, now)
	a.Calls.add(b.Calls)
	a.Buffers.add(b.Buffers)
	for i, list := range b.parts() {
		for name, p := range *list {
			if p != nil { // as it may be in a stored document
				entryOf(a.parts()[i], name, mostParts[i]).add(p, now)
			}
		}
	}
	a.Windows = addWindows(a.Windows, b.Windows)
	for _, s := range b.Hours.dropFuture(hours, now) {
		a.Hours = a.Hours.add(hours, s.Start, s.Totals)
	}
}

// entryOf returns the entry with a name, perhaps a new one. Beyond most entries, all names share the entry others.
func entryOf[E any](entries *map[string]*E, name string, most int) *E {
	if (*entries)[others] != nil { // the entry others itself does not count
		most++
	}
	if (*entries)[name] == nil && len(*entries) >= most {
		name = others
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
	Since             int64         `json:"since"`   // when what is shown begins, in Unix seconds
	Started           int64         `json:"started"` // when this server started, in Unix seconds
	Totals                          // of all turns
	ToolCalls         ToolCalls     `json:"tool_calls"`
	ToolBufferMetrics ToolBuffers   `json:"tool_buffer_metrics"`
	ByKey             []Part        `json:"by_key"` // by the key's id or, for keys without one, the user's name
	ByModel           []Part        `json:"by_model"`
	ByAPI             []Part        `json:"by_api"`
	ByMeter           []Part        `json:"by_meter"`          // of turns whose meter is known
	ByUser            []Part        `json:"by_user,omitempty"` // only for Everybody, and only of all time
	ByHour            []TimeTotals  `json:"by_hour"`           // of the last 48 hours, those that had turns
	ByDay             []TimeTotals  `json:"by_day"`            // of the last 62 days (UTC), those that had turns
	Windows           []WindowUsage `json:"windows"`           // by time; only those that the caller has used, or all for Everybody
}

// Part is the use by one key, model, API, meter or user.
type Part struct {
	Name string `json:"name"`
	Totals
}

func partsOf(parts map[string]*part, since int64) []Part {
	found := make([]Part, 0, len(parts))
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		if t := parts[name].since(since); t.Requests+t.Turns > 0 {
			found = append(found, Part{strings.Replace(name, others, "(others)", 1), t})
		}
	}
	return found
}

// body returns the body of GET /v1/usage about a since a time, rounded down to a day; 0: of all time. all are
// the windows of all users. The times are in Unix seconds.
func (a *account) body(user string, all []*window, since, counted, started, now int64) Account {
	if since > 0 {
		since = max(days.partStart(since), days.oldestStart(now))
	}
	body := Account{
		Object:            "usage",
		Since:             max(since, counted),
		Started:           started,
		Totals:            a.since(since),
		ToolCalls:         a.Calls,
		ToolBufferMetrics: a.Buffers,
		ByKey:             partsOf(a.Keys, since),
		ByModel:           partsOf(a.Models, since),
		ByAPI:             partsOf(a.APIs, since),
		ByMeter:           partsOf(a.Meters, since),
		ByUser:            partsOf(a.Users, since),
		ByHour:            a.Hours.recent(hours, since, now),
		ByDay:             a.Days.recent(days, since, now),
		Windows:           []WindowUsage{},
	}
	for _, w := range all {
		u := w.usage(func(key string) bool { return user == Everybody || a.Keys[key] != nil })
		if w.Resets > since && (user == Everybody || len(u.ByKey) > 0) {
			body.Windows = append(body.Windows, u)
		}
	}
	return body
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
