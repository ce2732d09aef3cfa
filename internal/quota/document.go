package quota

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// SaveInterval is how often a ledger that has changed is stored.
	SaveInterval = 2 * time.Second
	// maxAccounts bounds the accounts of a document.
	maxAccounts = 100_000
	// maxParts bounds the parts of a window in a document. A month has the most parts: 31.
	maxParts = 64
	// maxCount bounds a count in a document, so that sums cannot overflow.
	maxCount = 1 << 50
)

// document is a ledger as it is stored.
type document struct {
	Version  int                           `json:"version"`
	Accounts map[string]map[measure]counts `json:"accounts"` // by the names of the accounts, see Key.Account
}

// String returns the measure as it is stored, such as "tokens 5h" or "plan_share 1795891065 5h codex".
func (m measure) String() string { return string(m.unit) + " " + m.window.id() }

// MarshalText implements [encoding.TextMarshaler].
func (m measure) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (m *measure) UnmarshalText(text []byte) (err error) {
	unit, window, _ := strings.Cut(string(text), " ")
	switch m.unit = Unit(unit); m.unit {
	case Requests, Tokens:
		m.window, err = ParseWindow(window)
	case PlanShare:
		var ends int64
		end, name, _ := strings.Cut(window, " ")
		if ends, err = strconv.ParseInt(end, 10, 64); name == "" {
			err = errors.New("a window of a plan has no name")
		}
		m.window = PlanWindow(name, time.Unix(ends, 0))
	default:
		err = fmt.Errorf("the unit %.64q is unknown", unit)
	}
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

// Document implements [Book]. Tokens that are reserved for running turns are stored as used, in case this
// process ends before the turns do. Document removes accounts with neither counts nor turns from l.
func (l *Ledger) Document(since uint64) (any, uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changes == since {
		return nil, since
	}
	now := l.now()
	d := &document{DocumentVersion, make(map[string]map[measure]counts)}
	for name, a := range l.accounts {
		stored := make(map[measure]counts)
		for m := range a.used {
			a.used[m] = a.used[m].update(m.window, now)
			c := slices.Clone(a.used[m])
			if m.unit == Tokens {
				c = c.add(m.window.partAt(now), a.reserved)
			}
			if len(c) > 0 {
				stored[m] = c
			} else {
				delete(a.used, m)
			}
		}
		if len(stored) > 0 {
			d.Accounts[name] = stored
		} else if len(a.reservedByTurn) == 0 {
			delete(l.accounts, name)
		}
	}
	return d, l.changes
}

// Restore implements [Book]. In the document, the counts of a window may be in any order.
func (l *Ledger) Restore(content []byte) error {
	var d document
	if err := json.Unmarshal(content, &d); err != nil {
		return err
	}
	if len(d.Accounts) > maxAccounts {
		return fmt.Errorf("it has %d accounts", len(d.Accounts))
	}
	for _, used := range d.Accounts {
		for m, c := range used {
			if len(c) > maxParts {
				return fmt.Errorf("%s has %d parts", m, len(c))
			}
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changes++
	for name, used := range d.Accounts {
		a := l.account(name)
		for m, parts := range used {
			for _, c := range parts {
				a.used[m] = a.used[m].add(c.part, c.n)
			}
		}
	}
	return nil
}
