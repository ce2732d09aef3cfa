package claims

import (
	"sync"
	"time"
)

// Crowd finds out whether a user shares a server with others. Its methods are safe for concurrent
// use.
type Crowd struct {
	known func() bool // reports whether the server has several users; nil: not known

	mu     sync.Mutex
	recent recent
}

// window is how long a user counts as present after the last request.
const window = time.Hour

// NewCrowd returns a crowd. known, which may be nil, reports whether the server has several
// users, even if so far only one of them has sent requests.
func NewCrowd(known func() bool) *Crowd { return &Crowd{known: known} }

// Note records a request of a user. It ignores an empty name, since callers without a name cannot
// be told apart.
func (c *Crowd) Note(user string) {
	if user == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recent.note(user)
}

// Shares reports whether a user shares the server with others: several users are known, or
// another user has sent a request within the last hour. It is false for callers without a name.
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

// recent are the two users who have sent the latest requests, the user of the latest one first.
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

// others reports whether another user has had a request within the window.
func (r *recent) others(user string) bool {
	other := r[0]
	if other.user == user {
		other = r[1]
	}
	return !other.at.IsZero() && time.Since(other.at) < window
}
