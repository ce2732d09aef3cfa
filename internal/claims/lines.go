package claims

// member returns the member of a user, and makes one if there is none. If the member gets no slots
// and does not wait, the caller must pass it to forget. The caller holds the lock, as for all
// functions in this file.
func (q *Queue) member(user string) *member {
	m := q.users[user]
	if m == nil {
		m = &member{user: user}
		q.users[user] = m
	}
	return m
}

// forget removes the member m if it has neither slots nor waiting requests.
func (q *Queue) forget(m *member) {
	if m.running == 0 && m.waiters.Len() == 0 {
		delete(q.users, m.user)
	}
}

// admits reports whether a new request gets its slots at once: enough slots are free, the user m
// may hold them, and the request overtakes no waiting request that could get slots. It may overtake
// requests of other users who have reached their limit.
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

// first returns the request of m that has waited longest.
func (m *member) first() *waiter { return m.waiters.Front().Value.(*waiter) }

// take counts weight slots as used by m.
func (q *Queue) take(m *member, weight int) {
	q.running += weight
	m.running += weight
}

// giveBack frees slots of a user, and grants them to the users who are next.
func (q *Queue) giveBack(m *member, weight int) {
	q.running -= weight
	m.running -= weight
	q.serve()
	q.forget(m)
}

// join puts a request at the end of its user's line. If the queue is full and makeRoom fails, it
// returns ErrFull.
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

// evictable returns the request that a new request of m may push out of a full queue, or nil. It is
// the last request of the longest line, if m's line would still be shorter with the new request. So
// no user can fill the queue for all others.
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

// makeRoom makes room for a request of m: it refuses the request that evictable returns. If there
// is none, makeRoom returns false.
func (q *Queue) makeRoom(m *member) bool {
	last := q.evictable(m)
	if last == nil {
		return false
	}
	q.remove(last)
	q.decide(last, ErrFull)
	// serve need not be called: only the first request of each line can get slots, and the refused
	// request was not the first of its line.
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

// serve grants free slots to the users who are next. It skips users who have reached their limit.
// One pass over the users is enough: while others get slots, fewer slots are free, so the limit of
// a skipped user does not rise.
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

// decide ends the wait of a request. err is nil if the request has got its slots.
func (q *Queue) decide(w *waiter, err error) {
	w.err = err
	close(w.decided)
}

// shareOfFree bounds the slots of a user if QueueOptions.PerUser is 0: the user may hold
// shareOfFree slots for each slot that is still free afterwards.
const shareOfFree = 7

// mayHold reports whether the user m may hold weight more slots, see [Queue].
func (q *Queue) mayHold(m *member, weight int) bool {
	if q.opts.PerUser > 0 {
		return m.running+weight <= q.opts.PerUser
	}
	free := q.opts.Concurrent - q.running - weight
	return m.running == 0 || m.running+weight <= shareOfFree*free || !q.opts.Crowd.Shares(m.user)
}
