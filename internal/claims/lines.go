package claims

// member returns the member of a user, and makes one if there is none. If the member gets no slots and
// does not wait, the caller must pass it to forget. The lock is held, as in all functions in this file.
func (q *Queue) member(user string) *member {
	m := q.users[user]
	if m == nil {
		m = &member{user: user}
		q.users[user] = m
	}
	return m
}

// forget removes a user without slots and requests.
func (q *Queue) forget(m *member) {
	if m.running == 0 && m.waiters.Len() == 0 {
		delete(q.users, m.user)
	}
}

// admits reports whether a new request gets its slots at once: enough slots are free, its user may
// hold them, and no request waits, except those of other users who may not hold slots now.
func (q *Queue) admits(m *member, weight int) bool {
	if m.waiters.Len() > 0 || q.running+weight > q.opts.Concurrent || !q.mayHold(m, weight) {
		return false
	}
	for e := q.turns.Front(); e != nil; e = e.Next() {
		if other := e.Value.(*member); q.mayHold(other, other.first().weight) {
			return false
		}
	}
	return true
}

// first returns the request that has waited longest.
func (m *member) first() *waiter { return m.waiters.Front().Value.(*waiter) }

// take grants slots to a user.
func (q *Queue) take(m *member, weight int) {
	q.running += weight
	m.running += weight
}

// giveBack takes slots from a user and grants them to the users whose turn it is.
func (q *Queue) giveBack(m *member, weight int) {
	q.running -= weight
	m.running -= weight
	q.serve()
	q.forget(m)
}

// join puts a request at the end of its user's line.
func (q *Queue) join(m *member, weight int) (*waiter, error) {
	if q.waiting >= q.opts.Queue && !q.makeRoom(m) {
		q.forget(m)
		return nil, ErrFull
	}
	w := &waiter{weight: weight, member: m, decided: make(chan struct{})}
	w.place = m.waiters.PushBack(w)
	if m.turn == nil {
		m.turn = q.turns.PushBack(m)
	}
	q.waiting++
	q.serve() // waiting users may have no limit any more: they share with nobody after the crowd's window
	return w, nil
}

// evictable returns the last request of the longest line, if m's line with one request more is still
// shorter than that line. Else it returns nil. So no user can fill the queue for all others.
func (q *Queue) evictable(m *member) *waiter {
	var longest *member
	for e := q.turns.Front(); e != nil; e = e.Next() {
		if other := e.Value.(*member); longest == nil || other.waiters.Len() > longest.waiters.Len() {
			longest = other
		}
	}
	if longest == nil || longest.waiters.Len() <= m.waiters.Len()+1 {
		return nil
	}
	return longest.waiters.Back().Value.(*waiter)
}

// makeRoom makes room for a request of m: it refuses the request that evictable returns. It reports
// whether there was one.
func (q *Queue) makeRoom(m *member) bool {
	last := q.evictable(m)
	if last == nil {
		return false
	}
	q.remove(last)
	q.decide(last, ErrFull)
	// No call of serve is needed: the refused request was not first in its line.
	return true
}

// remove removes a request from its line.
func (q *Queue) remove(w *waiter) {
	m := w.member
	m.waiters.Remove(w.place)
	w.place = nil
	q.waiting--
	if m.waiters.Len() == 0 {
		q.turns.Remove(m.turn)
		m.turn = nil
	}
}

// serve grants free slots to the users whose turn it is. One pass is enough: a user above the
// limit stays above it while others get slots, since fewer slots are free then.
func (q *Queue) serve() {
	for e := q.turns.Front(); e != nil; {
		m, next := e.Value.(*member), e.Next()
		w := m.first()
		if q.mayHold(m, w.weight) {
			if q.running+w.weight > q.opts.Concurrent {
				return
			}
			q.take(m, w.weight)
			q.turns.MoveToBack(e)
			q.remove(w)
			q.decide(w, nil)
			if next == nil {
				next = m.turn // m was the last one, and is next again if it waits
			}
		}
		e = next
	}
}

// decide ends a request's wait.
func (q *Queue) decide(w *waiter, err error) {
	w.err = err
	close(w.decided)
}

// shareOfFree bounds the slots of a user: at most this many for each slot that stays free.
const shareOfFree = 7

// mayHold reports whether the limit of a user allows weight more slots.
func (q *Queue) mayHold(m *member, weight int) bool {
	if q.opts.PerUser > 0 {
		return m.running+weight <= q.opts.PerUser
	}
	free := q.opts.Concurrent - q.running - weight
	return m.running == 0 || m.running+weight <= shareOfFree*free || !q.opts.Crowd.Shares(m.user)
}
