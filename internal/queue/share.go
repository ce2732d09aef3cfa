package queue

import "time"

const (
	// shareOfFree is the most slots of a user, as a multiple of those that stay free.
	shareOfFree = 7

	// shareWindow is how long a user counts after the last request.
	shareWindow = time.Hour
)

// mayHold reports whether the limit of a user allows weight more slots.
func (q *Queue) mayHold(m *member, weight int) bool {
	switch {
	case q.opts.PerUser > 0:
		return m.running+weight <= q.opts.PerUser
	case m.running == 0 || m.user == "" || !q.recent.others(m.user):
		return true
	}
	free := q.opts.Concurrent - q.running - weight
	return m.running+weight <= shareOfFree*free
}

// recent are the two users with the last requests, the last one first.
type recent [2]struct {
	user string
	at   time.Time // zero: there is none
}

// note records a request of a user, unless the name is empty.
func (r *recent) note(user string) {
	if user == "" {
		return
	}
	if r[0].user != user {
		r[1] = r[0]
	}
	r[0].user, r[0].at = user, time.Now()
}

// others reports whether another user has had a request within the window.
func (r *recent) others(user string) bool {
	other := r[0]
	if other.user == user {
		other = r[1]
	}
	return !other.at.IsZero() && time.Since(other.at) < shareWindow
}
