package pool

import (
	"cmp"
	"time"
)

// Policy is how one of several app-servers is chosen for a turn. It decides among the app-servers
// that are ready, and whose login was not set aside after a failure.
type Policy struct {
	Name    string // one of the names below; empty: PolicySpread
	Reserve int    // how many of the last app-servers are the reserve of PolicyReserve
}

// The names of policies.
const (
	PolicySpread  = "spread"  // a turn goes to the app-server with the fewest turns
	PolicyReserve = "reserve" // like spread, but the last app-servers get turns only if no other can
)

// candidate is what the choice of a member depends on.
type candidate struct {
	readiness int       // its readiness; lower is better
	readyAt   time.Time // when its next start, the reset of its plan or the end of its rest is due; zero: it waits for none
	turns     int64     // how many run on it, of all configurations
	server    int       // the number of its app_server, from 0
}

// chooser chooses members by a policy. The same calls always make the same choices.
type chooser struct {
	Policy
	servers int // of the configuration

	// marks counts the turns that each member was given. Among members that are equal otherwise,
	// the one with the lowest mark is next. low is the mark that the last chosen member had before
	// its new turn. A mark below low counts as low, so that a member that was not ready for a while
	// does not get all turns afterwards.
	marks []int64
	low   int64
}

// choose returns the index of the best of members, which gets a turn.
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

func (c *chooser) mark(i int) int64 { return max(c.marks[i], c.low) }

// compare compares two members: first by state, then by due (see [candidate]; the earlier is
// better), then by the policy, then by the turns, and last by mark.
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
