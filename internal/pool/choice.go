package pool

import (
	"cmp"
	"time"
)

// Policy decides which app-server gets the next turn if several are equally ready.
type Policy struct {
	Name    string // one of the names below; empty: PolicySpread
	Reserve int    // for PolicyReserve: this many app-servers at the end of the list are the reserve
}

// The names of policies.
const (
	PolicySpread  = "spread"  // a turn goes to the app-server with the fewest turns
	PolicyReserve = "reserve" // like spread, but a turn goes to the reserve only if no other app-server is ready
)

// candidate has the facts about a member that chooser compares.
type candidate struct {
	readiness int       // one of the constants from isReady to isAvoided; a lower one is better
	readyAt   time.Time // when the member should become ready, for example when its plan resets; zero: not known, or it is ready
	turns     int64     // the turns that run on the member's process, of all configurations
	server    int       // the number of the member's app_server, from 0
}

// chooser chooses members by a policy. It uses no random numbers.
type chooser struct {
	Policy
	servers int // how many app_servers the pool has

	choices int64   // calls of choose
	chosen  []int64 // for each member: the call that has chosen it last; 0: none has
}

// choose returns the index of the best of members. Equal members alternate.
func (c *chooser) choose(members []candidate) int {
	best := c.best(members)
	c.choices++
	c.chosen[best] = c.choices
	return best
}

// best returns the index of the best of members, which must be the same in each call.
func (c *chooser) best(members []candidate) int {
	if c.chosen == nil {
		c.chosen = make([]int64, len(members))
	}
	best := 0
	for i := range members {
		if c.compare(members, i, best) < 0 {
			best = i
		}
	}
	return best
}

// compare compares two members by readiness, readyAt (earlier is better), policy, turns, and which was not
// chosen for longer, in this order. The result is negative if members[i] is better.
func (c *chooser) compare(members []candidate, i, j int) int {
	a, b := &members[i], &members[j]
	return cmp.Or(
		cmp.Compare(a.readiness, b.readiness),
		a.readyAt.Compare(b.readyAt),
		cmp.Compare(c.rank(a), c.rank(b)),
		cmp.Compare(a.turns, b.turns),
		cmp.Compare(c.chosen[i], c.chosen[j]),
	)
}

// rank returns 1 for a member of the reserve, else 0; lower is better.
func (c *chooser) rank(m *candidate) int {
	if c.Name == PolicyReserve && m.server >= c.servers-c.Reserve {
		return 1
	}
	return 0
}
