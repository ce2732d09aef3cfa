package pool

import (
	"cmp"
	"time"
)

// Policy decides which app-server gets the next turn, among those that are ready and whose logins
// were not set aside after a failure.
type Policy struct {
	Name    string // one of the names below; empty: PolicySpread
	Reserve int    // for PolicyReserve: how many app-servers, counted from the last, are the reserve
}

// The names of policies.
const (
	PolicySpread  = "spread"  // a turn goes to the app-server with the fewest turns
	PolicyReserve = "reserve" // like spread, but the last app-servers get turns only if no other app-server can take them
)

// candidate has the facts by which chooser compares a member.
type candidate struct {
	readiness int       // from isReady to isAvoided; lower is better
	readyAt   time.Time // when it should become ready, for example when its plan resets; zero: not known, or the member is ready
	turns     int64     // the turns that run on its process, of all configurations
	server    int       // the number of its app_server, from 0
}

// chooser chooses members by a policy. The same calls always make the same choices.
type chooser struct {
	Policy
	servers int // how many app_servers the pool has

	// marks counts the turns that each member was given. Among members that are equal otherwise,
	// the one with the lowest mark is next. low is the mark that the last chosen member had before
	// its new turn. A mark below low counts as low, so that a member that was not ready for a while
	// does not get all turns afterwards.
	marks []int64
	low   int64
}

// choose returns the index of the best of members, and counts a turn for it in marks.
func (c *chooser) choose(members []candidate) int {
	best := c.best(members)
	c.low = c.mark(best)
	c.marks[best] = c.low + 1
	return best
}

// best returns the index of the best of members. Each call has to pass the same members.
func (c *chooser) best(members []candidate) int {
	if c.marks == nil {
		c.marks = make([]int64, len(members))
	}
	best := 0
	for i := range members {
		if c.compare(members, i, best) < 0 {
			best = i
		}
	}
	return best
}

// mark returns the mark of a member, or low if that is higher.
func (c *chooser) mark(i int) int64 { return max(c.marks[i], c.low) }

// compare compares two members: first by readiness, then by readyAt (earlier is better), then by
// the policy, then by the turns, and last by mark. The result is negative if the first is better.
func (c *chooser) compare(members []candidate, i, j int) int {
	a, b := &members[i], &members[j]
	return cmp.Or(
		cmp.Compare(a.readiness, b.readiness),
		a.readyAt.Compare(b.readyAt),
		cmp.Compare(c.rank(a), c.rank(b)),
		cmp.Compare(a.turns, b.turns),
		cmp.Compare(c.mark(i), c.mark(j)),
	)
}

// rank returns the place of a member in the policy's order; lower is better.
func (c *chooser) rank(m *candidate) int {
	if c.Name == PolicyReserve && m.server >= c.servers-c.Reserve {
		return 1
	}
	return 0
}
