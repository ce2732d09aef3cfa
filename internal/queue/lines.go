package queue

import "container/list"

// join puts a request at the end of its user's line. The lock is held, as in
// all functions here.
func (q *Queue) join(user string, weight int) (*waiter, error) {
	if q.waiting >= q.opts.Queue && !q.makeRoom(user) {
		return nil, ErrFull
	}
	l := q.users[user]
	if l == nil {
		l = &line{user: user, waiters: list.New()}
		l.turn = q.turns.PushBack(l)
		q.users[user] = l
	}
	w := &waiter{weight: weight, line: l, decided: make(chan struct{})}
	w.place = l.waiters.PushBack(w)
	q.waiting++
	return w, nil
}

// makeRoom refuses the last request of the longest line, if the user's own
// will still be shorter than that one is: nobody fills the queue for everybody.
func (q *Queue) makeRoom(user string) bool {
	own := 0
	if l := q.users[user]; l != nil {
		own = l.waiters.Len()
	}
	var longest *line
	for e := q.turns.Front(); e != nil; e = e.Next() {
		if l := e.Value.(*line); longest == nil || l.waiters.Len() > longest.waiters.Len() {
			longest = l
		}
	}
	if longest == nil || longest.waiters.Len() <= own+1 {
		return false
	}
	last := longest.waiters.Back().Value.(*waiter)
	q.remove(last)
	q.decide(last, ErrFull)
	// What was refused may be what free slots were kept for, but never alone in
	// its line: another of the same user is first there.
	return true
}

// remove takes a request out of its line.
func (q *Queue) remove(w *waiter) {
	l := w.line
	l.waiters.Remove(w.place)
	w.place = nil
	q.waiting--
	if l.waiters.Len() == 0 {
		q.turns.Remove(l.turn)
		delete(q.users, l.user)
	}
}

// serve gives free slots to those whose turn it is.
func (q *Queue) serve() {
	for e := q.turns.Front(); e != nil; e = q.turns.Front() {
		l := e.Value.(*line)
		w := l.waiters.Front().Value.(*waiter)
		if q.running+w.weight > q.opts.Concurrent {
			return
		}
		q.running += w.weight
		q.turns.MoveToBack(e)
		q.remove(w)
		q.decide(w, nil)
	}
}

// decide ends a request's wait.
func (q *Queue) decide(w *waiter, err error) {
	w.err = err
	close(w.decided)
}
