package queue

import "time"

const (
	// shareOfFree is how many times the slots that stay free a user may hold.
	shareOfFree = 7

	// shareWindow is how long a user counts who asks for nothing any more.
	shareWindow = time.Hour
)

// mayHold reports whether a user may hold so many slots more, as far as other
// users are concerned.
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

// recent are the two users who have asked last, the last one first.
type recent [2]struct {
	user string
	at   time.Time // zero: there is none
}

// note remembers that a user with a name has asked.
func (r *recent) note(user string) {
	if user == "" {
		return
	}
	if r[0].user != user {
		r[1] = r[0]
	}
	r[0].user, r[0].at = user, time.Now()
}

// others reports whether anybody but the user has asked within the window.
func (r *recent) others(user string) bool {
	other := r[0]
	if other.user == user {
		other = r[1]
	}
	return !other.at.IsZero() && time.Since(other.at) < shareWindow
}
