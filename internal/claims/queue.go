// Package claims divides the server's resources among its users: slots for turns and the time of
// the processors ([Queue]), bytes and sockets ([Budget]). Each resource has a limit for all users
// together and a share for each user. A [Crowd] finds out whether a user has to share.
//
// If a resource is used up, a Queue lets a request wait, and a Budget refuses it immediately. When
// a request or a connection ends, it gives back all that it has claimed.
package claims

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"math"
	"sync"
	"time"
)

var (
	// ErrFull is the error of a request when QueueOptions.Queue requests are waiting already. It is also
	// the error of a waiting request whose place a user with fewer waiting requests takes.
	ErrFull = errors.New("the queue is full")

	// ErrTimeout is the error of a request that has waited too long for its slots.
	ErrTimeout = errors.New("no slot became free in time")

	// ErrTooHeavy is the error of a request for more slots than the queue has, or than one user may hold.
	ErrTooHeavy = errors.New("the request wants more slots than there are")
)

// QueueOptions are the limits of a [Queue].
type QueueOptions struct {
	Concurrent int           // how many slots there are; at least 1
	PerUser    int           // how many slots one user may hold; 0: the share that [Queue] describes
	Queue      int           // how many requests may wait; 0: none
	Wait       time.Duration // how long a request may wait
	Crowd      *Crowd        // finds out whether a user is alone; nil: NewQueue makes a Crowd
}

// Queue grants slots to requests. If no slots are free, a limited number of requests waits for a
// limited time. A Queue is safe for concurrent use and has no goroutines of its own.
//
// The queue serves the users in turn, and the requests of one user in the order of their calls of Acquire
// or, with AcquireInOrder, of their arrival. A request gets all its slots together. While the next request
// waits for enough free slots, no other request is served: otherwise requests for few slots would starve
// requests for many. But a user who has reached the limit of slots is skipped.
//
// A user's limit is QueueOptions.PerUser. If that is 0, the limit is [shareOfFree] times the slots that are
// still free after the grant, so that some are left for the next user: of 64 slots, one user gets at most
// 56, two about 30 each, three about 20. A user who holds no slots, or shares the server with nobody (see
// [Crowd]), may get any number.
type Queue struct {
	opts QueueOptions

	mu           sync.Mutex
	running      int                   // slots in use
	waiting      int                   // number of requests that wait
	users        map[string]*queueUser // the users with slots or with requests that wait
	waitingUsers *list.List            // of *queueUser: the users with requests that wait; the user who is served next is first
}

// queueUser is a user who has slots or requests that wait.
type queueUser struct {
	name        string
	running     int           // slots in use
	waiters     list.List     // of *waiter
	waitingElem *list.Element // the user's element of waitingUsers; nil: no request of the user waits
}

// waiter is a request that waits. endWait sets err and then closes done.
type waiter struct {
	weight  int
	arrived time.Time // see acquire
	user    *queueUser
	elem    *list.Element // the request's element of user.waiters; nil: the wait has ended
	done    chan struct{}
	err     error // why the request got no slots; nil: it got them
}

// NewQueue returns a queue.
func NewQueue(opts QueueOptions) *Queue {
	opts.Crowd = cmp.Or(opts.Crowd, NewCrowd(nil))
	return &Queue{opts: opts, users: make(map[string]*queueUser), waitingUsers: list.New()}
}

// Slots are a request's slots. Only one copy may be released or shrunk: each copy would give the slots
// back.
type Slots struct {
	queue  *Queue
	user   *queueUser // nil: the slots were given back; the lock of the queue guards this field
	weight int
}

// Acquire gets weight slots (at least one) for a request of a user, waiting if necessary. The caller
// must call Release. Errors: ErrFull, ErrTimeout, ErrTooHeavy, or the cause of the end of ctx.
func (q *Queue) Acquire(ctx context.Context, user string, weight int) (Slots, error) {
	return q.AcquireWithin(ctx, user, weight, q.opts.Wait)
}

// AcquireWithin does the same as Acquire, but waits at most timeout instead of QueueOptions.Wait.
func (q *Queue) AcquireWithin(ctx context.Context, user string, weight int, timeout time.Duration) (Slots, error) {
	return q.acquire(ctx, user, weight, timeout, time.Time{})
}

// AcquireInOrder gets one slot for a request of a user, however long that takes. A user's requests get
// their slots in the order of arrival. It is for unbounded queues whose slots are held for milliseconds.
func (q *Queue) AcquireInOrder(user string, arrived time.Time) Slots {
	slots, _ := q.acquire(context.Background(), user, 1, math.MaxInt64, arrived) // cannot fail in such a queue
	return slots
}

// acquire puts a request into the user's line behind those that did not arrive later. Except for AcquireInOrder,
// arrived is zero, so the order of the calls decides.
func (q *Queue) acquire(ctx context.Context, user string, weight int, timeout time.Duration, arrived time.Time) (Slots, error) {
	weight = max(1, weight)
	if weight > q.Heaviest() {
		return Slots{}, ErrTooHeavy
	}
	if ctx.Err() != nil {
		return Slots{}, context.Cause(ctx)
	}
	q.mu.Lock()
	u := q.user(user)
	if q.canAdmit(u, weight) {
		q.useSlots(u, weight)
		q.mu.Unlock()
		return Slots{q, u, weight}, nil
	}
	w, err := q.enqueue(u, weight, arrived)
	q.mu.Unlock()
	if err != nil {
		return Slots{}, err
	}
	if err := q.wait(ctx, w, timeout); err != nil {
		return Slots{}, err
	}
	return Slots{q, u, weight}, nil
}

// Full reports whether Acquire would now return ErrFull even if the user wanted only one slot.
func (q *Queue) Full(user string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	u := q.user(user)
	defer q.forget(u)
	return !q.canAdmit(u, 1) && q.waiting >= q.opts.Queue && q.evictable(u) == nil
}

// Heaviest returns the largest number of slots that one request may ask for.
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

// Release gives the slots back. It does nothing on zero Slots, and when it is called again.
func (s *Slots) Release() {
	if s.queue == nil {
		return
	}
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	if s.user != nil {
		s.queue.freeSlots(s.user, s.weight)
		s.user = nil
	}
}

// Shrink keeps weight slots and gives all others back. After Release, it does nothing.
func (s *Slots) Shrink(weight int) {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	if s.user == nil || weight >= s.weight {
		return
	}
	u, less := s.user, s.weight-weight
	if s.weight = weight; weight == 0 {
		s.user = nil
	}
	s.queue.freeSlots(u, less)
}

func (q *Queue) wait(ctx context.Context, w *waiter, timeout time.Duration) error {
	select {
	case <-w.done:
		return w.err
	case <-time.After(timeout):
		return q.cancelWait(w, ErrTimeout)
	case <-ctx.Done():
		return q.cancelWait(w, context.Cause(ctx))
	}
}

// cancelWait ends the wait of w for a reason: ErrTimeout, or the cause of the end of ctx. If w has got its
// slots at the last moment, w keeps them after a timeout; if ctx has ended, cancelWait frees them.
func (q *Queue) cancelWait(w *waiter, reason error) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.elem != nil { // w still waits
		q.dequeue(w)
		q.forget(w.user)
		q.grantFreeSlots() // other requests may have waited behind w
		return reason
	}
	if w.err != nil || errors.Is(reason, ErrTimeout) {
		return w.err // nil after a timeout: w keeps its slots
	}
	q.freeSlots(w.user, w.weight)
	return reason
}
