package claims

import (
	"sync"
	"time"
)

// Crowd finds out whether a user shares the server with others. A user who is alone need not leave
// a part of a [Budget] or of a [Queue] to others. A Crowd is safe for concurrent use.
type Crowd struct {
	hasSeveralUsers func() bool // reports whether the server is known to have several users; may be nil

	mu sync.Mutex
	// recent has the two users with the most recent requests, the latest first.
	recent [2]struct {
		user string
		at   time.Time // time of this user's latest request; zero: there is no such user
	}
}

// window is how long a user counts as present after each request.
const window = time.Hour

// NewCrowd returns a crowd. hasSeveralUsers reports whether the server is known to have several
// users, even if only one of them has sent requests so far. hasSeveralUsers may be nil.
func NewCrowd(hasSeveralUsers func() bool) *Crowd { return &Crowd{hasSeveralUsers: hasSeveralUsers} }

// Note records a request of a user. It ignores callers without a name, since they cannot be told apart.
func (c *Crowd) Note(user string) {
	if user == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.recent[0].user != user {
		c.recent[1] = c.recent[0]
	}
	c.recent[0].user, c.recent[0].at = user, time.Now()
}

// Shares reports whether a user shares the server with others: hasSeveralUsers says so, or another user has
// sent a request within the window. A caller without a name shares the server with nobody.
func (c *Crowd) Shares(user string) bool {
	if user == "" {
		return false
	}
	if c.hasSeveralUsers != nil && c.hasSeveralUsers() {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	other := c.recent[0]
	if other.user == user {
		other = c.recent[1]
	}
	return !other.at.IsZero() && time.Since(other.at) < window
}
