package responsestore

import (
	"sync"
	"time"
)

// schedule says when the next sweep is due. All stores over Caddy's storage
// share one, since they share the folder, and a store lives only as long as its
// configuration: reloads must not put the sweeps off again and again.
type schedule struct {
	mu  sync.Mutex
	due time.Time
}

// sweeps is the schedule of this process.
var sweeps = newSchedule()

func newSchedule() *schedule { return &schedule{due: time.Now().Add(sweepEvery)} }

// wait is how long it is until the next sweep.
func (s *schedule) wait() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Until(s.due)
}

// take begins the sweep that is due. False: another store has begun it.
func (s *schedule) take() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Until(s.due) > 0 {
		return false
	}
	s.due = time.Now().Add(sweepEvery)
	return true
}

// again makes a sweep due that was begun and broken off: the next store does it.
func (s *schedule) again() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.due = time.Now()
}
