package responsestore

import (
	"sync"
	"time"
)

// schedule holds when the next sweep is due. All stores in Caddy's storage share one,
// since they share a folder and live only as long as their configurations. Reloads
// must not postpone sweeps again and again.
type schedule struct {
	mu  sync.Mutex
	due time.Time
}

// sweeps is the schedule of this process.
var sweeps = newSchedule()

func newSchedule() *schedule { return &schedule{due: time.Now().Add(sweepEvery)} }

// wait returns the time until the next sweep.
func (s *schedule) wait() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Until(s.due)
}

// take starts the sweep that is due. It returns false if another store has.
func (s *schedule) take() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Until(s.due) > 0 {
		return false
	}
	s.due = time.Now().Add(sweepEvery)
	return true
}

// again makes a sweep due that was interrupted.
func (s *schedule) again() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.due = time.Now()
}
