package usage

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

const (
	// documentVersion is the only version that this release reads.
	documentVersion = 1
	// maxDocument bounds a document that is read, in bytes. The largest possible
	// book takes 30 MB.
	maxDocument = 64 << 20
)

// document is a book as it is stored.
type document struct {
	Version  int                 `json:"version"`
	ID       string              `json:"id"`    // see Book.id
	Since    int64               `json:"since"` // Unix time in seconds
	Accounts map[string]*account `json:"accounts"`
	Entries  []Entry             `json:"entries"` // the newest first
}

// decode reads a document. It returns an error if any part cannot be read.
func decode(content []byte) (*document, error) {
	if len(content) > maxDocument {
		return nil, fmt.Errorf("it has %d bytes, more than %d", len(content), maxDocument)
	}
	d := new(document)
	if err := json.Unmarshal(content, d); err != nil {
		return nil, err
	}
	if d.Version != documentVersion {
		return nil, fmt.Errorf("its version is %d, not %d", d.Version, documentVersion)
	}
	for user, a := range d.Accounts {
		if a == nil {
			return nil, fmt.Errorf("the account %q is null", user)
		}
		for model, t := range a.Models {
			if t == nil {
				return nil, fmt.Errorf("the account %q has null for the model %q", user, model)
			}
		}
	}
	return d, nil
}

// document returns a copy of the book and its number of changes. Turns wait for
// the copy only.
func (b *Book) document() (d *document, changes uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	d = &document{
		Version:  documentVersion,
		ID:       b.id,
		Since:    b.since.Unix(),
		Accounts: make(map[string]*account, len(b.accounts)),
		Entries:  b.ring.newest(func(*Entry) bool { return true }),
	}
	for user, a := range b.accounts {
		d.Accounts[user] = a.clone()
	}
	return d, b.changes
}

// changed returns how often the book has changed.
func (b *Book) changed() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.changes
}

// restore adds the counts of a document. The book, which must not have been stored
// yet, continues the book of the document.
func (b *Book) restore(d *document) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.changes++
	b.id = cmp.Or(d.ID, b.id)
	if since := time.Unix(d.Since, 0); since.Before(b.since) {
		b.since = since
	}
	now := time.Now().Unix()
	for user, a := range d.Accounts {
		b.account(user).add(a, now)
	}
	b.prepend(d.Entries)
}

// prepend adds older entries, as far as there is room.
func (b *Book) prepend(newestFirst []Entry) {
	all := append(b.ring.newest(func(*Entry) bool { return true }), newestFirst...)
	all = all[:min(len(all), maxEntries)]
	slices.Reverse(all)
	b.ring = ring{entries: all}
}
