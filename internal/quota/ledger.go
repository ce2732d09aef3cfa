package quota

import (
	"context"
	"strings"
	"sync"
	"time"
)

// Ledger is an [Engine] for one process. It has the counts in memory.
type Ledger struct {
	now func() time.Time

	mu       sync.Mutex
	accounts map[string]*account // by their names, see Key.Account
	changes  uint64              // how often the ledger has changed
}

// NewLedger returns an empty ledger. now is the clock.
func NewLedger(now func() time.Time) *Ledger {
	return &Ledger{now: now, accounts: make(map[string]*account)}
}

// account returns the account of a key, perhaps a new one. The caller holds l.mu.
func (l *Ledger) account(id string) *account {
	a := l.accounts[id]
	if a == nil {
		a = &account{used: make(map[measure]counts), reservedByTurn: make(map[string]int64)}
		l.accounts[strings.Clone(id)] = a
	}
	return a
}

// Do implements [Engine].
func (l *Ledger) Do(_ context.Context, k *Key, o Op) (Result, error) {
	if o.Kind == Look {
		return Result{}, nil // the caller reads the counts with the method states
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changes++
	return l.account(k.Account).apply(k, o, l.now())
}

func (l *Ledger) states(k *Key) []State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.accounts[k.Account].states(k, l.now())
}
