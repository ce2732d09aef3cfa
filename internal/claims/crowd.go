package claims

import (
	"sync"
	"time"
)

// Crowd finds out whether a user shares the server with others. A user who is alone need not leave
// a part of a [Budget] or of a [Queue] to others. A Crowd is safe for concurrent use.
type Crowd struct {
	known func() bool // reports whether the server has several users; nil: not known

	mu     sync.Mutex
	recent recent
}

// window is how long after a request its user counts as present.
const window = time.Hour

// NewCrowd returns a crowd. known reports whether the server is known to have several users, even
// if only one of them has sent requests so far. known may be nil.
func NewCrowd(known func() bool) *Crowd { return &Crowd{known: known} }

// Note records a request of a user. It ignores an empty name, since the server cannot distinguish
// callers without a name.
func (c *Crowd) Note(user string) {
	if user == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recent.note(user)
}

// Shares reports whether a user shares the server with others: known returns true, or another user
// has sent a request within the window. For callers without a name, Shares returns false.
func (c *Crowd) Shares(user string) bool {
	if user == "" {
		return false
	}
	if c.known != nil && c.known() {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.recent.others(user)
}

// recent has the last two users who have sent requests. The user of the latest request is first.
type recent [2]struct {
	user string
	at   time.Time // zero: there is none
}

func (r *recent) note(user string) {
	if r[0].user != user {
		r[1] = r[0]
	}
	r[0].user, r[0].at = user, time.Now()
}

// others reports whether another user has sent a request within the window.
func (r *recent) others(user string) bool {
	other := r[0]
	if other.user == user {
		other = r[1]
	}
	return !other.at.IsZero() && time.Since(other.at) < window
}
