package usage

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	// documentVersion is the one form of a document that this release knows.
	documentVersion = 1
	// maxDocument bounds what is read, in bytes. A book that is full to all its
	// bounds takes 30 MB.
	maxDocument = 64 << 20
)

// document is a book as it is stored.
type document struct {
	Version  int                 `json:"version"`
	Origins  []string            `json:"origins"` // see Book
	Since    int64               `json:"since"`   // Unix time in seconds
	Accounts map[string]*account `json:"accounts"`
	Entries  []Entry             `json:"entries"` // the newest first
}

// decode reads a document. What cannot be read is an error, never a part.
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
	if len(d.Origins) == 0 {
		return nil, errors.New("it has no origins")
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

// document copies the book, and tells how often that had changed. Only the
// copying holds turns up.
func (b *Book) document() (d *document, changes uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	d = &document{
		Version:  documentVersion,
		Origins:  slices.Clone(b.origins),
		Since:    b.since.Unix(),
		Accounts: make(map[string]*account, len(b.accounts)),
		Entries:  b.ring.newest(func(*Entry) bool { return true }),
	}
	for user, a := range b.accounts {
		d.Accounts[user] = a.clone()
	}
	return d, b.changes
}

// changed tells how often the book has changed.
func (b *Book) changed() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.changes
}

// merge adds what a document has, unless that is an older state of this book.
// fresh says that the book was never stored: then it goes on as the document.
func (b *Book) merge(d *document, fresh bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if slices.ContainsFunc(d.Origins, func(id string) bool { return slices.Contains(b.origins, id) }) {
		return
	}
	b.changes++
	if fresh {
		b.origins = nil
	}
	b.origins = append(b.origins, d.Origins...)
	b.origins = b.origins[max(0, len(b.origins)-maxOrigins):]
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
