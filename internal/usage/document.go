package usage

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/quota"
)

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
