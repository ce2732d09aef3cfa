package scriptedmodel

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// keptRequests and maxKeptBytes bound what Requests and Warmups keep: number and bytes of bodies.
const (
	keptRequests = 256
	maxKeptBytes = 128 << 20
)

// Stats counts the requests and streams of a [Server].
type Stats struct {
	// Requests to create a response, with refused ones and without warm-ups.
	Requests int
	// Warmups counts the requests without output on WebSockets.
	Warmups int
	// Bytes received in all requests and warm-ups.
	Bytes int
	// Sockets counts the WebSockets that were opened.
	Sockets int
	// Open is the number of streams in progress.
	Open int
	// Finished counts the streams that reached the end of their script.
	Finished int
	// ClosedEarly counts streams that the client closed before, as Codex does to interrupt a turn.
	ClosedEarly int
}

// recorder keeps the last requests and counts the streams.
type recorder struct {
	mu      sync.Mutex
	limit   int // maximum number of requests kept
	seen    int // number of requests and warm-ups
	kept    []Request
	bytes   int
	stats   Stats
	changed chan struct{} // closed and replaced when stats change
}

// add keeps a request and sets its number. It drops the oldest requests if there are too many.
func (r *recorder) add(req *Request) {
	r.update(func(s *Stats) {
		if r.seen++; req.IsWarmup() {
			s.Warmups++
		} else {
			s.Requests++
		}
		s.Bytes += req.Bytes
		req.Number, req.At = r.seen, time.Now()
		r.kept = append(r.kept, *req)
		r.bytes += len(req.Body)
		for len(r.kept) > r.limit || r.bytes > maxKeptBytes {
			r.bytes -= len(r.kept[0].Body)
			r.kept[0] = Request{}
			r.kept = r.kept[1:]
		}
	})
}

// update changes the stats under the lock and wakes every Wait.
func (r *recorder) update(change func(*Stats)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.stats)
	close(r.changed)
	r.changed = make(chan struct{})
}

// snapshot returns the stats and a channel that is closed when they change.
func (r *recorder) snapshot() (Stats, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stats, r.changed
}

func (r *recorder) requests(warmup bool) (kept []Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, req := range r.kept {
		if req.IsWarmup() == warmup {
			kept = append(kept, req)
		}
	}
	return kept
}

// Requests returns the kept requests without warm-ups, oldest first. They must not be changed.
func (s *Server) Requests() []Request { return s.log.requests(false) }

// Warmups returns the warm-ups that are kept, oldest first. They must not be changed.
func (s *Server) Warmups() []Request { return s.log.requests(true) }

// Last returns the last request that is not a warm-up. It must not be changed.
func (s *Server) Last() (req Request, ok bool) {
	all := s.log.requests(false)
	if len(all) == 0 {
		return Request{}, false
	}
	return all[len(all)-1], true
}

// Stats returns the counters.
func (s *Server) Stats() Stats {
	stats, _ := s.log.snapshot()
	return stats
}

// Wait waits until the counters satisfy condition, and returns them, or an error if ctx ends first.
func (s *Server) Wait(ctx context.Context, condition func(Stats) bool) (Stats, error) {
	for {
		stats, changed := s.log.snapshot()
		if condition(stats) {
			return stats, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return stats, fmt.Errorf("waiting at %+v: %w", stats, ctx.Err())
		}
	}
}

// WaitClosed waits until the client has closed n streams before their end.
func (s *Server) WaitClosed(ctx context.Context, n int) error {
	_, err := s.Wait(ctx, func(stats Stats) bool { return stats.ClosedEarly >= n })
	return err
}
