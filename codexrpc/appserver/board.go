package appserver

import (
	"slices"
	"sync"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// board is what the supervisor publishes: the status, the connection for new turns, and the
// draining instances (they get no new turns). All methods are safe for concurrent use.
type board struct {
	mu       sync.Mutex
	status   Status
	memory   int64          // of the serving instance; 0: not known
	conn     *codexrpc.Conn // of the serving instance, in StateReady and StateUnresponsive only
	draining []*instance
	account  accountState
	changed  chan struct{} // closed and replaced at each change
}

// read returns the status, the serving connection if there is one, and a channel that is closed at
// the next change.
func (b *board) read() (Status, *codexrpc.Conn, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.status, b.conn, b.changed
}

// summary returns the status, with the memory and the counts of the instances filled in, and the
// serving connection.
func (b *board) summary() (Status, *codexrpc.Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	status := b.status
	status.Memory, status.Draining = b.memory, len(b.draining)
	if b.conn != nil {
		status.Threads = b.conn.Threads()
	}
	for _, in := range b.draining {
		status.Threads += in.conn.Threads()
	}
	return status, b.conn
}

// update makes a change, and wakes everybody who waits for one.
func (b *board) update(change func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change()
	b.signal()
}

// signal wakes everybody who waits for a change. The lock is held.
func (b *board) signal() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// set sets the status.
func (b *board) set(next Status) {
	b.update(func() { b.setStatus(next) })
}

// setStatus sets the status, and keeps the fields that do not depend on the state. The caller holds
// the lock.
func (b *board) setStatus(next Status) {
	next.Since = time.Now()
	if next.State == b.status.State { // the same state, with another instance
		next.Since = b.status.Since
	}
	next.Restarts, next.Replacements = b.status.Restarts, b.status.Replacements
	if next.State == StateUnresponsive || next.State == StateReady && next.PID == b.status.PID {
		next.Account, next.Refused, next.Silent = b.status.Account, b.status.Refused, b.status.Silent
	}
	if next.Version == "" {
		next.Version = b.status.Version
	}
	if next.State == StateStarting { // keep what is known of the last failure
		next.Remedy, next.Final, next.SignedOut = b.status.Remedy, b.status.Final, b.status.SignedOut
	}
	if next.State != StateReady && next.State != StateUnresponsive {
		b.conn, b.memory = nil, 0
	}
	b.status = next
}

// serve publishes in as the serving instance. If old is not nil, it publishes old as draining.
func (b *board) serve(in, old *instance) {
	b.update(func() {
		if old != nil {
			b.draining = append(b.draining, old)
			b.status.Replacements++
		}
		b.conn, b.memory = in.conn, 0
		b.setStatus(Status{State: StateReady, PID: in.pid(), Version: in.version})
	})
}

// drained removes an instance that has drained.
func (b *board) drained(old *instance) {
	b.update(func() {
		b.draining = slices.DeleteFunc(b.draining, func(in *instance) bool { return in == old })
	})
}
