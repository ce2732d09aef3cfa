// Package usage counts requests, tokens and tool calls for /v1/usage and /v1/usage/raw, and stores
// the counts across restarts. It holds no content of conversations.
package usage

import (
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/quota"
)

// The bounds of a [Book].
const (
	maxUsers   = 1000 // users with an account of their own; further users share one account
	maxModels  = 20   // models of an account, and meters, with an entry of their own; further ones share one
	maxAPIs    = 100  // APIs and other routes
	maxKeys    = 200  // keys of an account, and of a window
	maxEntries = 1000 // turns kept for /v1/usage/raw, of all users together, and as many refused requests
	maxName    = 200  // bytes of a name
)

// others is the name of what is counted together since there are too many names, for example of users.
const others = "\x00others"

// Book holds all users' accounts and the last turns. It is safe for concurrent use.
type Book struct {
	started time.Time

	mu       sync.Mutex
	since    time.Time // when counting began
	accounts map[string]*account
	entries  []Entry // the last turns, the newest last
	refused  []Entry // the last refused requests, in a list of their own, so that they displace no turns
	windows  []*window
	told     uint64 // how many of changes were no turns or refused requests
	changes  uint64 // how often the book has changed
}

// New returns an empty book.
func New() *Book {
	now := time.Now()
	return &Book{started: now, since: now, accounts: make(map[string]*account)}
}

// Add counts and lists a turn or a refused request, or counts what was told of windows.
func (b *Book) Add(r Record) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r.User = UserName(r.User)
	b.changes++
	b.windows = addWindows(b.windows, windowsOf(&r))
	if r.Told {
		b.told++
		return
	}
	b.account(r.User).countTurn(&r)
	if !r.Unlisted {
		b.addEntry(NewEntry(&r))
	}
}

func (b *Book) account(user string) *account {
	return entryOf(&b.accounts, user, maxUsers)
}

// Everybody stands for all users. No user has this name, see [UserName].
const Everybody = "\x00all"

// Account returns what a user has used since the day (UTC) of a time in Unix seconds; 0: of all time. For
// [Everybody], it returns what all users have used together, with the totals of each user.
func (b *Book) Account(user string, since int64) Account {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now().Unix()
	return b.sum(user, now).body(user, b.windows, since, b.since.Unix(), b.started.Unix(), now)
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
			entryOf(&sum.Users, name, maxUsers).Totals.add(a.Totals)
		}
	}
	return sum
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

// SaveInterval is how often a changed book is stored.
const SaveInterval = time.Minute

type document struct {
	Version  int                 `json:"version"`
	Since    int64               `json:"since"` // Unix time in seconds
	Accounts map[string]*account `json:"accounts"`
	Windows  []*window           `json:"windows,omitempty"`
	Entries  []Entry             `json:"entries"` // the newest first
}

// Document implements [quota.Book]. It holds the lock only while it copies the book.
func (b *Book) Document(since uint64) (any, uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.changes == since {
		return nil, since
	}
	d := &document{
		Version:  quota.DocumentVersion,
		Since:    b.since.Unix(),
		Accounts: make(map[string]*account, len(b.accounts)),
		Windows:  addWindows(nil, b.windows),
		Entries:  b.newestEntries(func(*Entry) bool { return true }),
	}
	for user, a := range b.accounts {
		d.Accounts[user] = new(account)
		d.Accounts[user].add(a, endOfTime)
	}
	return d, b.changes
}

// Restore implements [quota.Book]. It adds the counts of a document to the counts of the
// book. So if the document was made from this book, its turns count twice.
func (b *Book) Restore(content []byte) error {
	var d document
	if err := json.Unmarshal(content, &d); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.changes++
	if since := time.Unix(d.Since, 0); since.Before(b.since) {
		b.since = since
	}
	now := time.Now().Unix()
	for user, a := range d.Accounts {
		if a != nil {
			b.account(user).add(a, now)
		}
	}
	b.windows = addWindows(b.windows, d.Windows)
	older := append(b.newestEntries(func(*Entry) bool { return true }), d.Entries...)
	b.entries, b.refused = nil, nil
	for _, e := range slices.Backward(older) {
		b.addEntry(e)
	}
	return nil
}
