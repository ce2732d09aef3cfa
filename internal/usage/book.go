// Package usage keeps the accounts of what turns have cost and what became of
// their tool calls, for /v1/usage and /v1/usage/raw, and keeps them over
// restarts. It holds nothing that was said.
package usage

import (
	"crypto/rand"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/gateway"
)

// The bounds of a [Book].
const (
	maxUsers   = 1000 // accounts of their own; further users share one
	maxModels  = 20   // of an account; further models share an entry
	maxEntries = 1000 // turns that are kept for /v1/usage/raw, of all users
	maxName    = 200  // bytes of a name that are kept
	maxOrigins = 16   // see Book.origins
)

// sharedAccount is that of the users beyond maxUsers.
const sharedAccount = "\x00others"

// Book keeps the accounts. It is safe for concurrent use.
type Book struct {
	started time.Time

	mu       sync.Mutex
	since    time.Time // when the first of its counts began
	accounts map[string]*account
	ring     ring
	changes  uint64 // how often it has changed
	// origins name where its counts began: here, and in the documents that were
	// added. A document that shares one is an older state of the same book.
	origins []string
}

// New returns an empty book.
func New() *Book {
	now := time.Now()
	return &Book{started: now, since: now, accounts: make(map[string]*account), origins: []string{rand.Text()}}
}

// TurnEnded enters a turn.
func (b *Book) TurnEnded(r gateway.Record) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r.User = UserName(r.User)
	b.changes++
	b.account(r.User).enter(r)
	b.ring.put(newEntry(r))
}

// account finds or opens a user's account.
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

// Account returns a user's account. It is the caller's.
func (b *Book) Account(user string) Account {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.accounts[UserName(user)]
	if a == nil {
		a = newAccount()
	}
	return b.view(a)
}

// All returns the sum of all accounts, and each user's part of it.
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

// Raw returns a user's last turns, as far as they are kept.
func (b *Book) Raw(user string) Raw {
	user = UserName(user)
	b.mu.Lock()
	defer b.mu.Unlock()
	raw := Raw{Object: "list", Data: b.ring.newest(func(e *Entry) bool { return e.User == user })}
	if a := b.accounts[user]; a != nil {
		raw.ToolBufferMetrics = a.Buffers.clone()
	}
	return raw
}

// AllRaw returns the last turns of all users.
func (b *Book) AllRaw() Raw {
	b.mu.Lock()
	defer b.mu.Unlock()
	raw := Raw{Object: "list", Data: b.ring.newest(func(*Entry) bool { return true })}
	for _, a := range b.accounts {
		raw.ToolBufferMetrics.add(a.Buffers)
	}
	return raw
}
