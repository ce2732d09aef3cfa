package quota

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/storedbook"
)

const (
	// SyncInterval is how often a node stores what it has counted, if that has changed, and
	// reads what the others have.
	SyncInterval = 2 * time.Second
	// maxAccounts bounds the accounts of a document.
	maxAccounts = 100_000
	// maxParts bounds the parts of a window in a document: a month has 31.
	maxParts = 64
	// maxCount bounds a count in a document, so that sums cannot overflow.
	maxCount = 1 << 50
	// maxNodes bounds the nodes whose counts are kept although their documents are missing.
	maxNodes = 256
	// left is the age at which a document in which nothing counts any more is deleted.
	left = time.Hour
)

// NewKeeper returns a keeper of a ledger.
func NewKeeper(l *Ledger) *storedbook.Keeper {
	return storedbook.NewKeeper(l, "the use of API keys", "codex/keys", SyncInterval)
}

// document is a ledger as it is stored. A node reads those of the others as well.
type document struct {
	storedbook.Header
	At       int64                         `json:"at"`       // when it was stored, in Unix seconds
	Accounts map[string]map[measure]counts `json:"accounts"` // by account

	sum   [sha256.Size]byte // of the content of another node's
	since time.Time         // when that was first read
}

// String returns the measure as it is stored, such as "tokens 5h".
func (m measure) String() string { return string(m.unit) + " " + m.window.String() }

// MarshalText implements [encoding.TextMarshaler].
func (m measure) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (m *measure) UnmarshalText(text []byte) (err error) {
	unit, window, _ := strings.Cut(string(text), " ")
	if m.unit = Unit(unit); m.unit != Requests && m.unit != Tokens {
		return fmt.Errorf("the unit %.64q is unknown", unit)
	}
	m.window, err = ParseWindow(window)
	return err
}

// MarshalJSON implements [json.Marshaler].
func (c count) MarshalJSON() ([]byte, error) { return fmt.Appendf(nil, "[%d,%d]", c.part, c.n), nil }

// UnmarshalJSON implements [json.Unmarshaler].
func (c *count) UnmarshalJSON(text []byte) error {
	var pair [2]int64
	if err := json.Unmarshal(text, &pair); err != nil {
		return err
	}
	if *c = (count{pair[0], pair[1]}); c.n < 0 || c.n > maxCount {
		return fmt.Errorf("it has a count of %d", c.n)
	}
	return nil
}

// Document implements [storedbook.Book]. What requests under way have taken counts as used: it
// stays so if this process ends without a word. Accounts without counts are forgotten.
func (l *Ledger) Document(since uint64) (storedbook.Document, uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changes == since {
		return nil, since
	}
	now := l.now()
	d := &document{At: now.Unix(), Accounts: make(map[string]map[measure]counts)}
	for name, a := range l.accounts {
		stored := make(map[measure]counts)
		for m := range a.used {
			a.used[m] = a.used[m].update(m.window, now)
			c := slices.Clone(a.used[m])
			if m.unit == Tokens {
				c = c.add(m.window.at(now), a.held)
			}
			if len(c) > 0 {
				stored[m] = c
			} else {
				delete(a.used, m)
			}
		}
		if len(stored) > 0 {
			d.Accounts[name] = stored
		} else if a.running == 0 && len(a.others) == 0 {
			delete(l.accounts, name)
		}
	}
	return d, l.changes
}

// Restore implements [storedbook.Book].
func (l *Ledger) Restore(content []byte) error {
	d, err := decode(content)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changes++
	for name, used := range d.Accounts {
		a := l.account(name)
		for m, c := range used {
			a.used[m] = a.used[m].plus(c)
		}
	}
	return nil
}

// decode reads a document. The counts may be in any order.
func decode(content []byte) (*document, error) {
	d := new(document)
	if err := json.Unmarshal(content, d); err != nil {
		return nil, err
	}
	if len(d.Accounts) > maxAccounts {
		return nil, fmt.Errorf("it has %d accounts", len(d.Accounts))
	}
	for _, used := range d.Accounts {
		for m, c := range used {
			if len(c) > maxParts {
				return nil, fmt.Errorf("%s has %d parts", m, len(c))
			}
		}
	}
	return d, nil
}

// Share implements [storedbook.Sharer]. The documents to delete are old ones in which nothing
// counts any more. The error is of documents that cannot be read. What a node has counted
// still counts if its document cannot be read, or is missing.
func (l *Ledger) Share(documents map[string][]byte) (over []string, failed error) {
	nodes, now := make(map[string]*document), l.now()
	for key, content := range documents {
		d, err := l.readNode(key, content, now)
		switch {
		case err != nil:
			failed = errors.Join(failed, fmt.Errorf("%s: %w", key, err))
		case d.counts(now):
			nodes[key] = d
		default:
			nodes[key] = nil
			if now.Sub(time.Unix(d.At, 0)) > left {
				over = append(over, key)
			}
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, d := range l.nodes {
		if _, read := nodes[key]; !read && len(nodes) < maxNodes && d.counts(now) {
			nodes[key] = d
		}
	}
	maps.DeleteFunc(nodes, func(_ string, d *document) bool { return d == nil })
	l.nodes = nodes
	for _, a := range l.accounts {
		a.others = nil
	}
	for _, d := range nodes {
		l.addOthers(d, now)
	}
	return over, failed
}

// readNode returns the document of another node, the one of before if it has not changed. Only
// Share calls it.
func (l *Ledger) readNode(key string, content []byte, now time.Time) (*document, error) {
	sum := sha256.Sum256(content)
	if d := l.nodes[key]; d != nil && d.sum == sum {
		return d, nil
	}
	d, err := decode(content)
	if err == nil {
		d.sum, d.since = sum, now.Round(0)
	}
	return d, err
}

// addOthers adds what another node has counted. What lies ahead, since the clock of one of the
// two is wrong, counts as of the first time that it was read: else it would count until then.
func (l *Ledger) addOthers(d *document, now time.Time) {
	if now.Before(d.since) {
		d.since = now.Round(0)
	}
	for name, used := range d.Accounts {
		for m, c := range used {
			if c = counts(nil).plus(c).update(m.window, d.since).update(m.window, now); len(c) == 0 {
				continue
			}
			a := l.account(name)
			if a.others == nil {
				a.others = make(map[measure]counts)
			}
			a.others[m] = a.others[m].plus(c)
		}
	}
}

// counts reports whether anything in the document still counts.
func (d *document) counts(now time.Time) bool {
	for _, used := range d.Accounts {
		for m, c := range used {
			if c.sum(m.window.oldest(now)) > 0 {
				return true
			}
		}
	}
	return false
}
