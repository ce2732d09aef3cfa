// Package queue admits requests to a bounded number of slots, of which no user
// takes all while others ask. Requests that find no slot wait, a bounded number
// of them, for a bounded time, and fairly: the users take turns, however many
// requests each of them has waiting.
package queue

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"time"
)

var (
	// ErrFull refuses a request because as many as allowed are waiting. Also one
	// that waits already may be refused so, in favour of a user who has fewer.
	ErrFull = errors.New("the queue is full")

	// ErrTimeout ends the wait of a request that found no slot in time.
	ErrTimeout = errors.New("no slot became free in time")

	// ErrTooHeavy refuses a request that wants more slots than there are, or than
	// its user may hold.
	ErrTooHeavy = errors.New("the request wants more slots than there are")
)

// Options are the limits of a [Queue].
type Options struct {
	Concurrent int           // slots; at least 1
	PerUser    int           // slots that one user may hold; 0: the share that [Queue] describes
	Queue      int           // requests that may wait; 0: none does
	Wait       time.Duration // how long each may wait
}

// Queue hands out slots. Its methods are safe for concurrent use. It has no
// goroutines of its own.
//
// A request that waits is served in the order of its user's requests, and the
// users are served in turn. The one whose turn it is gets the next slots, all
// that it wants at once: until there are enough, nobody passes it, so that
// requests for few slots do not starve one for many. Only a user who holds as
// many slots as one may is passed.
//
// Without a number for it, that is [shareOfFree] times the slots that stay free,
// so that some are left for who comes next: of 64 slots one user gets 56, two get
// about 30 each, three about 20. A user who holds none may have any number, and there
// is no share as long as nobody else has asked for [shareWindow]. The empty user
// stands for callers without a name and has no share either.
type Queue struct {
	opts Options

	mu      sync.Mutex
	running int                // slots in use
	waiting int                // requests in the lines
	users   map[string]*member // those with slots or with requests waiting
	turns   *list.List         // those with requests waiting; the first one's turn is next
	recent  recent
}

// member is a user who has slots or requests that wait.
type member struct {
	user    string
	running int
	waiters list.List     // of *waiter
	turn    *list.Element // nil: no request waits
}

// waiter is one request that waits. What is decided about it is written before
// decided is closed, and under the queue's lock.
type waiter struct {
	weight  int
	member  *member
	place   *list.Element // among the member's
	decided chan struct{}
	err     error // nil: it was given its slots
}

// New makes a queue.
func New(opts Options) *Queue {
	return &Queue{opts: opts, users: make(map[string]*member), turns: list.New()}
}

// Acquire takes weight slots, at least one, for a request of a user, waiting
// for them if need be. release gives them back; it may be called more than
// once. The error is ErrFull, ErrTimeout, ErrTooHeavy, or the cause of ctx's
// end.
func (q *Queue) Acquire(ctx context.Context, user string, weight int) (release func(), err error) {
	weight = max(1, weight)
	if weight > q.Heaviest() {
		return nil, ErrTooHeavy
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	q.mu.Lock()
	q.recent.note(user)
	m := q.member(user)
	if q.admits(m, weight) {
		q.take(m, weight)
		q.mu.Unlock()
		return q.releaser(m, weight), nil
	}
	w, err := q.join(m, weight)
	q.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if err := q.wait(ctx, w); err != nil {
		return nil, err
	}
	return q.releaser(m, weight), nil
}

// Full reports whether Acquire would refuse any request of the user with ErrFull
// at the moment.
func (q *Queue) Full(user string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	m := q.member(user)
	defer q.forget(m)
	return !q.admits(m, 1) && q.waiting >= q.opts.Queue && q.evictable(m) == nil
}

// Heaviest is the most slots that one request may want.
func (q *Queue) Heaviest() int {
	if q.opts.PerUser > 0 {
		return min(q.opts.PerUser, q.opts.Concurrent)
	}
	return q.opts.Concurrent
}

// Running is the number of slots in use.
func (q *Queue) Running() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.running
}

// Len is the number of requests that wait.
func (q *Queue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting
}

// releaser is what gives slots back, once.
func (q *Queue) releaser(m *member, weight int) func() {
	return func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if weight > 0 {
			q.giveBack(m, weight)
			weight = 0
		}
	}
}

// wait waits until it is decided about w, its time is over, or ctx ends.
func (q *Queue) wait(ctx context.Context, w *waiter) error {
	timer := time.NewTimer(q.opts.Wait)
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

// giveUp takes a waiter out of its line, unless it was decided about just now.
// Slots that came too late for the time are taken all the same; those that came
// too late for the caller, who has gone, go to others.
func (q *Queue) giveUp(w *waiter, reason error) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.place != nil {
		q.remove(w)
		q.forget(w.member)
		q.serve() // it may have been the one that others waited behind
		return reason
	}
	if w.err != nil || errors.Is(reason, ErrTimeout) {
		return w.err
	}
	q.giveBack(w.member, w.weight)
	return reason
}
