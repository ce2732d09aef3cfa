package appserver

import (
	"slices"
	"sync"
	"time"
)

// publishedStatus is what the supervisor publishes: the status, the instance for new turns, and the
// draining ones, which get none. All methods are safe for concurrent use.
type publishedStatus struct {
	mu       sync.Mutex
	status   Status
	memory   int64     // of the serving instance; 0: not known
	latest   *instance // serves, or served last; nil: none has served yet
	draining []*instance
	changed  chan struct{} // closed and replaced at each change

	operatorHome string    // the CODEX_HOME with the login; empty: not known
	triedLogin   LoginFile // the version of the login with which the last instance was started
	loginFailed  time.Time // when that instance could not take over; zero: it can
}

// servingLocked returns the serving instance in StateReady and StateUnresponsive, and nil in the
// other states. The caller holds the lock.
func (s *publishedStatus) servingLocked() *instance {
	if s.status.State == StateReady || s.status.State == StateUnresponsive {
		return s.latest
	}
	return nil
}

// latestInstance returns the instance that serves or served last, or nil.
func (s *publishedStatus) latestInstance() *instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.latest
}

// read returns the status, the serving instance if there is one, and a channel that is closed at the
// next change.
func (s *publishedStatus) read() (Status, *instance, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status, s.servingLocked(), s.changed
}

// summary returns the status. It includes the memory, the counts of threads and draining instances,
// and what the provider of the serving instance refuses.
func (s *publishedStatus) summary() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	status := s.status
	status.Memory, status.Draining = s.memory, len(s.draining)
	if in := s.servingLocked(); in != nil {
		status.Threads, status.Strict, status.SerialModels = in.conn.Threads(), in.acceptance.Strict(), in.acceptance.SerialModels()
	}
	for _, in := range s.draining {
		status.Threads += in.conn.Threads()
	}
	return status
}

// update calls change with the lock held, and then wakes everybody who waits for a change.
func (s *publishedStatus) update(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	close(s.changed)
	s.changed = make(chan struct{})
}

// setStatusLocked replaces the status. It keeps old values that are still true, such as the number
// of restarts. The caller holds the lock.
func (s *publishedStatus) setStatusLocked(next Status) {
	next.Since = time.Now()
	if next.State == s.status.State { // the state began earlier, perhaps with another instance
		next.Since = s.status.Since
	}
	next.Restarts, next.Replacements = s.status.Restarts, s.status.Replacements
	if next.State == StateUnresponsive || next.State == StateReady && next.PID == s.status.PID {
		next.Account, next.AccountFailure, next.AccountKnown = s.status.Account, s.status.AccountFailure, s.status.AccountKnown
	}
	if next.Version == "" {
		next.Version = s.status.Version
	}
	if next.State == StateStarting { // keep what is known of the last failure
		next.Remedy, next.Final, next.SignedOut = s.status.Remedy, s.status.Final, s.status.SignedOut
	}
	if next.State != StateReady && next.State != StateUnresponsive {
		s.memory = 0
	}
	s.status = next
}

// setServing publishes the serving instance. If old is not nil, setServing publishes old as draining.
func (s *publishedStatus) setServing(in, old *instance) {
	s.update(func() {
		if old != nil {
			s.draining = append(s.draining, old)
			s.status.Replacements++
		}
		s.latest, s.memory = in, 0
		s.setStatusLocked(Status{State: StateReady, PID: in.pid(), Version: in.version})
		s.status.AccountKnown = in.accountKnown
	})
}

func (s *publishedStatus) setTriedLogin(operatorHome string, file LoginFile) {
	s.update(func() { s.operatorHome, s.triedLogin, s.loginFailed = operatorHome, file, time.Time{} })
}

// setLoginFailed records that the instance that was started last does not take over.
func (s *publishedStatus) setLoginFailed() {
	s.update(func() { s.loginFailed = time.Now() })
}

func (s *publishedStatus) removeDraining(old *instance) {
	s.update(func() {
		s.draining = slices.DeleteFunc(s.draining, func(in *instance) bool { return in == old })
	})
}
