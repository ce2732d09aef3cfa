package claims

import "time"

// user returns the entry of a user, perhaps a new entry. If the user gets no slots and does not wait, the
// caller must pass the entry to forget. The caller holds the lock, as for all functions in this file.
func (q *Queue) user(name string) *queueUser {
	u := q.users[name]
	if u == nil {
		u = &queueUser{name: name}
		q.users[name] = u
	}
	return u
}

func (q *Queue) forget(u *queueUser) {
	if u.running == 0 && u.waiters.Len() == 0 {
		delete(q.users, u.name)
	}
}

// canAdmit reports whether a new request gets its slots immediately: they are free, the user may hold them,
// no request of the user waits, and all other users who wait have reached their limits.
func (q *Queue) canAdmit(u *queueUser, weight int) bool {
	if u.waiters.Len() > 0 || q.running+weight > q.opts.Concurrent || !q.mayHold(u, weight) {
		return false
	}
	for e := q.waitingUsers.Front(); e != nil; e = e.Next() {
		if other := e.Value.(*queueUser); q.mayHold(other, other.first().weight) {
			return false
		}
	}
	return true
}

// first returns the request of u that has waited longest. u must have a waiting request.
func (u *queueUser) first() *waiter { return u.waiters.Front().Value.(*waiter) }

func (q *Queue) useSlots(u *queueUser, weight int) {
	q.running += weight
	u.running += weight
}

func (q *Queue) freeSlots(u *queueUser, weight int) {
	q.running -= weight
	u.running -= weight
	q.grantFreeSlots()
	q.forget(u)
}

// enqueue puts a request into its user's line, behind the requests that did not arrive later. If the queue
// is full and no waiting request is evictable, the error is ErrFull.
func (q *Queue) enqueue(u *queueUser, weight int, arrived time.Time) (*waiter, error) {
	if q.waiting >= q.opts.Queue {
		last := q.evictable(u)
		if last == nil {
			q.forget(u)
			return nil, ErrFull
		}
		q.dequeue(last)
		q.endWait(last, ErrFull) // no grantFreeSlots: only the first request of a line can get slots, and last was not the first
	}
	w := &waiter{weight: weight, arrived: arrived, user: u, done: make(chan struct{})}
	before := u.waiters.Back()
	for before != nil && arrived.Before(before.Value.(*waiter).arrived) {
		before = before.Prev()
	}
	if before == nil {
		w.elem = u.waiters.PushFront(w)
	} else {
		w.elem = u.waiters.InsertAfter(w, before)
	}
	if u.waitingElem == nil {
		u.waitingElem = q.waitingUsers.PushBack(u)
	}
	q.waiting++
	q.grantFreeSlots() // a user who waits may be alone by now (see Crowd), and so have no limit any more
	return w, nil
}

// evictable returns the request that has to leave a full queue for a new one of u, or nil: the last in the
// longest line of a user, if this is longer than that of u with the new one. So no user can fill the queue.
func (q *Queue) evictable(u *queueUser) *waiter {
	var longest *queueUser
	for e := q.waitingUsers.Front(); e != nil; e = e.Next() {
		if other := e.Value.(*queueUser); longest == nil || other.waiters.Len() > longest.waiters.Len() {
			longest = other
		}
	}
	if longest == nil || longest.waiters.Len() <= u.waiters.Len()+1 {
		return nil
	}
	return longest.waiters.Back().Value.(*waiter)
}

func (q *Queue) dequeue(w *waiter) {
	u := w.user
	u.waiters.Remove(w.elem)
	w.elem = nil
	q.waiting--
	if u.waiters.Len() == 0 {
		q.waitingUsers.Remove(u.waitingElem)
		u.waitingElem = nil
	}
}

// grantFreeSlots grants free slots to waiting requests. It skips users who have reached their limit. At the
// first request of another user that needs more slots than are free, it stops. One pass is enough: while
// other users get slots, fewer are free, so a skipped user's limit does not rise.
func (q *Queue) grantFreeSlots() {
	for e := q.waitingUsers.Front(); e != nil; {
		u, next := e.Value.(*queueUser), e.Next()
		w := u.first()
		if q.mayHold(u, w.weight) {
			if q.running+w.weight > q.opts.Concurrent {
				return
			}
			q.useSlots(u, w.weight)
			q.waitingUsers.MoveToBack(e)
			q.dequeue(w)
			q.endWait(w, nil)
			if next == nil {
				next = u.waitingElem // u was last in the list; if u has more waiting requests, u is served next
			}
		}
		e = next
	}
}

func (q *Queue) endWait(w *waiter, err error) {
	w.err = err
	close(w.done)
}

// shareOfFree bounds the slots of a user if QueueOptions.PerUser is 0: the user may hold
// shareOfFree slots for each slot that is still free afterwards.
const shareOfFree = 7

func (q *Queue) mayHold(u *queueUser, weight int) bool {
	if q.opts.PerUser > 0 {
		return u.running+weight <= q.opts.PerUser
	}
	free := q.opts.Concurrent - q.running - weight
	return u.running == 0 || u.running+weight <= shareOfFree*free || !q.opts.Crowd.Shares(u.name)
}
