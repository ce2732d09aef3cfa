package quota

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/storedbook"
)

const (
	// maxAccounts bounds the accounts of a document.
	maxAccounts = 100_000
	// maxParts bounds the parts of a window in a document: a month has 31.
	maxParts = 64
	// maxCount bounds a count in a document, so that sums cannot overflow.
	maxCount = 1 << 50
)

// document is a ledger as it is stored. A node reads those of the others as well.
type document struct {
	storedbook.Header
	At       int64                            `json:"at"`       // when it was stored, in Unix seconds
	Accounts map[string]map[string][][2]int64 `json:"accounts"` // number and count of each part, by account and measure
}

// String returns the measure as it is stored, such as "tokens 5h".
func (m measure) String() string { return string(m.unit) + " " + m.window.String() }

// parseMeasure reads a measure.
func parseMeasure(s string) (m measure, err error) {
	unit, window, _ := strings.Cut(s, " ")
	if m.unit = Unit(unit); m.unit != Requests && m.unit != Tokens {
		return m, fmt.Errorf("the unit %q is unknown", unit)
	}
	m.window, err = ParseWindow(window)
	return m, err
}

// Document returns a copy of the ledger, and how often it has changed. What requests under
// way have taken counts as used: it stays so if this process ends without a word. Accounts
// without counts are forgotten.
func (l *Ledger) Document() (any, uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	d := &document{
		Header: storedbook.Header{Version: storedbook.Version, ID: l.id}, At: now.Unix(),
		Accounts: make(map[string]map[string][][2]int64),
	}
	for name, a := range l.accounts {
		stored := make(map[string][][2]int64)
		for m := range a.used {
			a.used[m] = a.used[m].update(m.window, now)
			c := a.used[m]
			if m.unit == Tokens {
				c = slices.Clone(c).add(m.window.at(now), a.held)
			}
			if len(c) == 0 {
				delete(a.used, m)
				continue
			}
			parts := make([][2]int64, len(c))
			for i, count := range c {
				parts[i] = [2]int64{count.part, count.n}
			}
			stored[m.String()] = parts
		}
		if len(stored) > 0 {
			d.Accounts[name] = stored
		} else if a.running == 0 && len(a.others) == 0 {
			delete(l.accounts, name)
		}
	}
	return d, l.changes
}

// Changes returns how often the ledger has changed.
func (l *Ledger) Changes() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changes
}

// Restore adds the counts of a document, which the ledger continues.
func (l *Ledger) Restore(content []byte) error {
	d, accounts, err := decode(content)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changes++
	l.id = cmp.Or(d.ID, l.id)
	for name, used := range accounts {
		a := l.account(name)
		for m, c := range used {
			for _, count := range c {
				a.used[m] = a.used[m].add(count.part, count.n)
			}
		}
	}
	return nil
}

// Owns reports whether the documents with an ID are older copies of this ledger.
func (l *Ledger) Owns(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return id == l.id
}

// decode reads a document and its accounts.
func decode(content []byte) (*document, map[string]map[measure]counts, error) {
	d := new(document)
	if err := storedbook.Decode(content, d); err != nil {
		return nil, nil, err
	}
	if len(d.Accounts) > maxAccounts {
		return nil, nil, fmt.Errorf("it has %d accounts", len(d.Accounts))
	}
	accounts := make(map[string]map[measure]counts, len(d.Accounts))
	for name, stored := range d.Accounts {
		accounts[name] = make(map[measure]counts, len(stored))
		for key, parts := range stored {
			m, err := parseMeasure(key)
			if err != nil {
				return nil, nil, fmt.Errorf("the measure %.64q: %w", key, err)
			}
			if len(parts) > maxParts {
				return nil, nil, fmt.Errorf("%s has %d parts", m, len(parts))
			}
			for _, p := range parts {
				if p[1] < 0 || p[1] > maxCount {
					return nil, nil, fmt.Errorf("%s has a count of %d", m, p[1])
				}
				accounts[name][m] = accounts[name][m].add(p[0], p[1])
			}
		}
	}
	return d, accounts, nil
}

// share sets what other nodes have counted.
func (l *Ledger) share(nodes []map[string]map[measure]counts) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	for _, a := range l.accounts {
		a.others = nil
	}
	for _, accounts := range nodes {
		for name, used := range accounts {
			for m, c := range used {
				if c = c.update(m.window, now); len(c) == 0 {
					continue
				}
				a := l.account(name)
				if a.others == nil {
					a.others = make(map[measure]counts)
				}
				for _, count := range c {
					a.others[m] = a.others[m].add(count.part, count.n)
				}
			}
		}
	}
}

// over reports whether nothing of these accounts counts any more.
func over(accounts map[string]map[measure]counts, now time.Time) bool {
	for used := range maps.Values(accounts) {
		for m, c := range used {
			if c.sum(m.window.oldest(now)) > 0 {
				return false
			}
		}
	}
	return true
}
