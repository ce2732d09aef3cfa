package claims

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"time"
)

var (
	// ErrFull refuses a request because as many requests as allowed are waiting. A request that
	// waits already may get this error, too, if a user with fewer waiting requests takes its place.
	ErrFull = errors.New("the queue is full")

	// ErrTimeout ends the wait of a request that found no slot in time.
	ErrTimeout = errors.New("no slot became free in time")

	// ErrTooHeavy refuses a request for more slots than there are, or than its user may hold.
	ErrTooHeavy = errors.New("the request wants more slots than there are")
)

// QueueOptions are the limits of a [Queue].
type QueueOptions struct {
	Concurrent int           // slots; at least 1
	PerUser    int           // slots that one user may hold; 0: the share that [Queue] describes
	Queue      int           // requests that may wait; 0: none does
	Wait       time.Duration // how long each may wait
	Crowd      *Crowd        // nil: the queue makes its own, without known users
}

// Queue grants slots. A bounded number of requests waits for them, for a bounded time. A Queue is
// safe for concurrent use and has no goroutines of its own.
//
// The requests of one user are served in their order, and the users are served in turn.
// The next slots go to the user whose turn it is. A request gets all slots that it wants at once.
// Until enough are free, no other user is served: requests for few slots must not starve a
// request for many. Only a user who holds as many slots as allowed is skipped.
//
// Without QueueOptions.PerUser, that limit is [shareOfFree] times the slots that stay free, so
// that some are left for the next user: of 64 slots one user gets 56, two get about 30 each,
// three about 20. A user who holds none may get any number, and there is no limit for a user
// who shares with nobody, see [Crowd].
type Queue struct {
	opts QueueOptions

	mu      sync.Mutex
	running int                // slots in use
	waiting int                // requests in the lines
	users   map[string]*member // the users with slots or with requests that wait
	turns   *list.List         // of *member: the users with requests that wait, the next one first
}

// member is a user who has slots or requests that wait.
type member struct {
	user    string
	running int
	waiters list.List     // of *waiter
	turn    *list.Element // in the queue's turns; nil: no request waits
}

// waiter is a request that waits. err is written under the lock, before decided is closed.
type waiter struct {
	weight  int
	member  *member
	place   *list.Element // in the member's waiters; nil: the wait has ended
	decided chan struct{}
	err     error // nil: it got its slots
}

// NewQueue returns a queue.
func NewQueue(opts QueueOptions) *Queue {
	if opts.Crowd == nil {
		opts.Crowd = NewCrowd(nil)
	}
	return &Queue{opts: opts, users: make(map[string]*member), turns: list.New()}
}

// Slots are the slots of a request. They must not be copied once Release or Shrink may be called:
// each copy would give the slots back.
type Slots struct {
	queue  *Queue
	member *member // nil: they were given back; the queue's lock guards it
	weight int
}

// Acquire takes weight slots, at least one, for a request of a user, and waits for them
// if necessary. The caller releases them. The error is ErrFull, ErrTimeout, ErrTooHeavy, or
// the cause of the end of ctx.
func (q *Queue) Acquire(ctx context.Context, user string, weight int) (Slots, error) {
	return q.AcquireWithin(ctx, user, weight, q.opts.Wait)
}

// AcquireWithin is like Acquire, but waits for at most wait instead of QueueOptions.Wait.
func (q *Queue) AcquireWithin(ctx context.Context, user string, weight int, wait time.Duration) (Slots, error) {
	weight = max(1, weight)
	if weight > q.Heaviest() {
		return Slots{}, ErrTooHeavy
	}
	if ctx.Err() != nil {
		return Slots{}, context.Cause(ctx)
	}
	q.mu.Lock()
	m := q.member(user)
	if q.admits(m, weight) {
		q.take(m, weight)
		q.mu.Unlock()
		return Slots{q, m, weight}, nil
	}
	w, err := q.join(m, weight)
	q.mu.Unlock()
	if err != nil {
		return Slots{}, err
	}
	if err := q.wait(ctx, w, wait); err != nil {
		return Slots{}, err
	}
	return Slots{q, m, weight}, nil
}

// Full reports whether Acquire would now refuse any request of the user with ErrFull.
func (q *Queue) Full(user string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	m := q.member(user)
	defer q.forget(m)
	return !q.admits(m, 1) && q.waiting >= q.opts.Queue && q.evictable(m) == nil
}

// Heaviest returns the most slots that one request may want.
func (q *Queue) Heaviest() int {
	if q.opts.PerUser > 0 {
		return min(q.opts.PerUser, q.opts.Concurrent)
	}
	return q.opts.Concurrent
}

// Running returns the number of slots in use.
func (q *Queue) Running() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.running
}

// Len returns the number of requests that wait.
func (q *Queue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting
}

// Release gives the slots back. Another call does nothing.
func (s *Slots) Release() {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	if s.member != nil {
		s.queue.giveBack(s.member, s.weight)
		s.member = nil
	}
}

// Shrink gives back the slots above a number, unless they were released.
func (s *Slots) Shrink(weight int) {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	if s.member == nil || weight >= s.weight {
		return
	}
	m, less := s.member, s.weight-weight
	if s.weight = weight; weight == 0 {
		s.member = nil
	}
	s.queue.giveBack(m, less)
}

// wait waits until w is decided, its time has passed, or ctx ends.
func (q *Queue) wait(ctx context.Context, w *waiter, most time.Duration) error {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-w.decided:
		return w.err
	case <-timer.C:
		return q.giveUp(w, ErrTimeout)
	case <-ctx.Done():
		return q.giveUp(w, context.Cause(ctx))
	}
}

// giveUp ends the wait of w for a reason, a timeout or the end of ctx, and returns the result of
// the wait. If w got its slots just before, it keeps them after a timeout, but gives them back if
// ctx has ended.
func (q *Queue) giveUp(w *waiter, reason error) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.place != nil {
		q.remove(w)
		q.forget(w.member)
		q.serve() // other requests may have waited behind w
		return reason
	}
	if w.err != nil || errors.Is(reason, ErrTimeout) {
		return w.err
	}
	q.giveBack(w.member, w.weight)
	return reason
}
