// Package usage counts requests, tokens and tool calls for /v1/usage and
// /v1/usage/raw, and stores the counts across restarts. It holds no content of
// conversations.
package usage

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/gateway"
)

// The bounds of a [Book].
const (
	maxUsers   = 1000 // users with an account; further users share one
	maxModels  = 20   // models of an account; further models share an entry
	maxEntries = 1000 // turns kept for /v1/usage/raw, of all users together
	maxName    = 200  // bytes of a name
)

// sharedAccount is the account of the users beyond maxUsers.
const sharedAccount = "\x00others"

// Book holds the accounts of all users and the last turns. It is safe for
// concurrent use.
type Book struct {
	started time.Time

	mu       sync.Mutex
	since    time.Time // when counting began
	accounts map[string]*account
	ring     ring
	changes  uint64 // how often the book has changed
}

// New returns an empty book.
func New() *Book {
	now := time.Now()
	return &Book{started: now, since: now, accounts: make(map[string]*account)}
}

// TurnEnded counts a turn.
func (b *Book) TurnEnded(r gateway.Record) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r.User = UserName(r.User)
	b.changes++
	b.account(r.User).enter(r)
	b.ring.put(newEntry(r))
}

// account returns a user's account, and opens it if there is none yet.
func (b *Book) account(user string) *account {
	a := b.accounts[user]
	if a == nil && len(b.accounts) >= maxUsers {
		user = sharedAccount
		a = b.accounts[user]
	}
	if a == nil {
		a = newAccount()
		b.accounts[strings.Clone(user)] = a
	}
	return a
}

// Account returns a copy of a user's account.
func (b *Book) Account(user string) Account {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.accounts[UserName(user)]
	if a == nil {
		a = newAccount()
	}
	return b.view(a)
}

// All returns the sum of all accounts, with the totals of each user.
func (b *Book) All() Account {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now().Unix()
	sum, users := newAccount(), make(map[string]*Totals, len(b.accounts))
	for user, a := range b.accounts {
		sum.add(a, now)
		if user == sharedAccount {
			user = "(others)"
		}
		users[user] = &a.Totals
	}
	view := b.view(sum)
	view.ByUser = make([]UserTotals, 0, len(users))
	for _, user := range slices.Sorted(maps.Keys(users)) {
		view.ByUser = append(view.ByUser, UserTotals{user, *users[user]})
	}
	return view
}

// Raw returns those of the last maxEntries turns that are the user's.
func (b *Book) Raw(user string) Raw {
	user = UserName(user)
	return b.raw(func(other string) bool { return other == user })
}

// AllRaw returns the last maxEntries turns of all users.
func (b *Book) AllRaw() Raw { return b.raw(func(string) bool { return true }) }

// raw returns the last turns of the wanted users.
func (b *Book) raw(wanted func(user string) bool) Raw {
	b.mu.Lock()
	defer b.mu.Unlock()
	raw := Raw{Object: "list", Data: b.ring.newest(func(e *Entry) bool { return wanted(e.User) })}
	for user, a := range b.accounts {
		if wanted(user) {
			raw.ToolBufferMetrics.add(a.Buffers)
		}
	}
	return raw
}
