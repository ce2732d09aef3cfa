package queue

// member finds a user, or makes one to be forgotten soon. The lock is held, as
// in all functions here.
func (q *Queue) member(user string) *member {
	m := q.users[user]
	if m == nil {
		m = &member{user: user}
		q.users[user] = m
	}
	return m
}

// forget drops a user who has nothing.
func (q *Queue) forget(m *member) {
	if m.running == 0 && m.waiters.Len() == 0 {
		delete(q.users, m.user)
	}
}

// admits reports whether a request that comes now gets its slots at once: there
// are enough, they are not kept for another, and its user may hold them.
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

// first is the request that has waited longest.
func (m *member) first() *waiter { return m.waiters.Front().Value.(*waiter) }

// take gives a user slots.
func (q *Queue) take(m *member, weight int) {
	q.running += weight
	m.running += weight
}

// giveBack takes slots from a user and gives them to those whose turn it is.
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
	q.serve() // a share may have ended by time alone
	return w, nil
}

// evictable is the last request of the longest line, if the user's own will
// still be shorter than that one is, else nil: nobody fills the queue for
// everybody.
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

// makeRoom refuses a request that waits, in favour of a user who has fewer.
func (q *Queue) makeRoom(m *member) bool {
	last := q.evictable(m)
	if last == nil {
		return false
	}
	q.remove(last)
	q.decide(last, ErrFull)
	// What was refused may be what free slots were kept for, but never alone in
	// its line: another of the same user is first there.
	return true
}

// remove takes a request out of its line.
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

// serve gives free slots to those whose turn it is. Who holds as many as one may
// is passed, and stays so while others get some: that leaves fewer free.
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
				next = m.turn // it is the last one, and has its turn again
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
