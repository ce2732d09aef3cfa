// Package usage counts requests, tokens and tool calls for /v1/usage and /v1/usage/raw, and stores
// the counts across restarts. It holds no content of conversations.
package usage

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// The bounds of a [Book].
const (
	maxUsers   = 1000 // users with an account of their own; further users share one account
	maxModels  = 20   // models of an account with an entry of their own; further models share one entry
	maxEntries = 1000 // turns kept for /v1/usage/raw, of all users together, and as many refused requests
	maxName    = 200  // bytes of a name
)

// othersAccount is the account of all users after the first maxUsers ones.
const othersAccount = "\x00others"

// Book holds all users' accounts and the last turns. It is safe for concurrent use.
type Book struct {
	started time.Time

	mu       sync.Mutex
	since    time.Time // when counting began
	accounts map[string]*account
	entries  []Entry // the last turns, the newest last
	refused  []Entry // the last refused requests, in a list of their own, so that they displace no turns
	windows  []*window
	changes  uint64 // how often the book has changed
}

// New returns an empty book.
func New() *Book {
	now := time.Now()
	return &Book{started: now, since: now}
}

// Add counts and lists a turn or a refused request.
func (b *Book) Add(r Record) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r.User = UserName(r.User)
	b.changes++
	b.account(r.User).countTurn(&r)
	b.windows = addWindows(b.windows, turnWindows(&r))
	if !r.Unlisted {
		last := new(Entry)
		if n := len(b.entries); n > 0 {
			last = &b.entries[n-1]
		}
		b.addEntry(newEntry(&r, last))
	}
}

// Observe counts what a provider has just said about the windows of a login.
func (b *Book) Observe(windows []PlanWindow) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.changes++
	b.windows = addWindows(b.windows, toldWindows(windows, time.Now().Unix()))
}

// Capacity returns what 100 % of a window cost, in the units of [Cost]. It learns that from this window
// and the last ones of the same login, meter and length. 0: not known.
func (b *Book) Capacity(w PlanWindow) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return capacity(b.windows, &w)
}

func (b *Book) account(user string) *account {
	return entryOf(&b.accounts, user, maxUsers, othersAccount)
}

// Everybody stands for all users. No user has this name, see [UserName].
const Everybody = "\x00all"

// Account returns what a user has used. For [Everybody], it returns what all users have used together,
// with the totals of each user.
func (b *Book) Account(user string) Account {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now().Unix()
	return b.sum(user, now).body(b.since.Unix(), b.started.Unix(), now)
}

// sum returns a copy of the account of a user or, for [Everybody], the sum of all accounts, without parts
// in the future, see [series.dropFuture]. now is in Unix seconds.
func (b *Book) sum(user string, now int64) *account {
	sum := new(account)
	if user == Everybody {
		sum.Windows = addWindows(nil, b.windows)
	}
	for name, a := range b.accounts {
		if user != Everybody && user != name {
			continue
		}
		sum.add(a, now)
		if user == Everybody {
			entryOf(&sum.Users, name, maxUsers, othersAccount).add(a.Totals)
		}
	}
	return sum
}

// body returns the body of GET /v1/usage about a. The times are in Unix seconds.
func (a *account) body(since, started, now int64) Account {
	body := Account{
		Object:            "usage",
		Since:             since,
		Started:           started,
		Totals:            a.Totals,
		ToolCalls:         a.Calls,
		ToolBufferMetrics: a.Buffers,
		ByModel:           make([]ModelTotals, 0, len(a.Models)),
		ByHour:            a.Hours.recent(hours, now),
		ByDay:             a.Days.recent(days, now),
	}
	for _, model := range slices.Sorted(maps.Keys(a.Models)) {
		body.ByModel = append(body.ByModel, ModelTotals{model, *a.Models[model]})
	}
	for user, t := range a.Users {
		if user == othersAccount {
			user = "(others)"
		}
		body.ByUser = append(body.ByUser, UserTotals{user, *t})
	}
	slices.SortFunc(body.ByUser, func(a, b UserTotals) int { return strings.Compare(a.User, b.User) })
	return body
}

// Raw returns the entries of a user, or of all users for [Everybody], among the last maxEntries turns and
// the last maxEntries refused requests.
func (b *Book) Raw(user string) Raw {
	b.mu.Lock()
	defer b.mu.Unlock()
	wanted := func(other string) bool { return user == Everybody || user == other }
	raw := Raw{Object: "list", Data: b.newestEntries(func(e *Entry) bool { return wanted(e.User) })}
	for other, a := range b.accounts {
		if wanted(other) {
			raw.ToolBufferMetrics.add(a.Buffers)
		}
	}
	return raw
}
