package scriptedmodel

import (
	"context"
	"fmt"
	"net/http"
	"sync"
)

// maxKeptBytes bounds the bodies that a recorder keeps, together.
const maxKeptBytes = 128 << 20

// Stats counts what a [Server] has seen.
type Stats struct {
	// Requests to create a response, refused ones included.
	Requests int
	// Open streams at present.
	Open int
	// Finished streams: played to the end of their scripts.
	Finished int
	// ClosedEarly counts the streams that the client closed before their end,
	// as Codex does when a turn is interrupted.
	ClosedEarly int
}

// recorder keeps the last requests and counts the streams.
type recorder struct {
	mu      sync.Mutex
	limit   int // number of requests kept
	kept    []recorded
	bytes   int
	stats   Stats
	changed chan struct{} // closed and replaced when stats change
}

type recorded struct {
	number int
	header http.Header
	body   []byte
}

func newRecorder(limit int) *recorder {
	return &recorder{limit: limit, changed: make(chan struct{})}
}

// add keeps a request and returns its number. The oldest ones make room.
func (r *recorder) add(header http.Header, body []byte) int {
	var number int
	r.update(func(s *Stats) {
		s.Requests++
		number = s.Requests
		r.kept = append(r.kept, recorded{number, header, body})
		r.bytes += len(body)
		for len(r.kept) > r.limit || r.bytes > maxKeptBytes {
			r.bytes -= len(r.kept[0].body)
			r.kept[0] = recorded{}
			r.kept = r.kept[1:]
		}
	})
	return number
}

// update changes the stats under the lock and wakes those who wait for a change.
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

// requests decodes what is kept, so that the caller gets copies of its own.
func (r *recorder) requests(last int) []Request {
	r.mu.Lock()
	kept := r.kept
	if last < len(kept) {
		kept = kept[len(kept)-last:]
	}
	kept = append([]recorded(nil), kept...)
	r.mu.Unlock()

	var requests []Request
	for _, k := range kept {
		// A body that was not understood is shown without its decoded form.
		req, err := decodeRequest(k.number, k.header, k.body)
		if err != nil {
			req = Request{Number: k.number, Header: k.header.Clone(), Body: append([]byte(nil), k.body...)}
		}
		requests = append(requests, req)
	}
	return requests
}

// Requests returns the requests to create a response, the oldest first, as far
// as they are kept. They are the caller's.
func (s *Server) Requests() []Request {
	return s.log.requests(s.log.limit)
}

// Last returns the request that came last. It is the caller's.
func (s *Server) Last() (req Request, ok bool) {
	requests := s.log.requests(1)
	if len(requests) == 0 {
		return Request{}, false
	}
	return requests[0], true
}

// Stats returns the counters.
func (s *Server) Stats() Stats {
	stats, _ := s.log.snapshot()
	return stats
}

// Wait waits until the counters fulfil the condition, and returns them. The
// error tells the counters as they are when ctx ends first.
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
