package caddymodule

import "sync"

// stops are the processes that are being stopped in the background. Other than
// with a sync.WaitGroup, one may be added while somebody waits for the last: a
// turn may let go of its process while Caddy exits.
type stops struct {
	mu      sync.Mutex
	changed *sync.Cond
	running int
}

func newStops() *stops {
	s := new(stops)
	s.changed = sync.NewCond(&s.mu)
	return s
}

// Go runs stop in the background.
func (s *stops) Go(stop func()) {
	s.mu.Lock()
	s.running++
	s.mu.Unlock()
	go func() {
		defer s.done()
		stop()
	}()
}

func (s *stops) done() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	s.changed.Broadcast()
}

// Wait waits until none is running.
func (s *stops) Wait() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.running > 0 {
		s.changed.Wait()
	}
}
