package pool

import (
	"cmp"
	"time"
)

// Policy is how one of several app-servers is chosen for a turn. It decides among the app-servers
// that are ready and whose login does not rest.
type Policy struct {
	Name    string // one of the names below; empty: PolicySpread
	Reserve int    // how many of the last app-servers are the reserve of PolicyReserve
}

// The names of policies.
const (
	PolicySpread    = "spread"     // a turn goes to the app-server with the fewest turns, in proportion to the weights
	PolicyFillFirst = "fill_first" // all turns go to one app-server until its login rests, and then to the next
	PolicyReserve   = "reserve"    // like spread, but the last app-servers get turns only if no other can
)

// candidate is what the choice of a member depends on.
type candidate struct {
	state  int       // its readiness; lower is better
	due    time.Time // when its next start, the reset of its plan or the end of its rest is due; zero: it waits for none
	turns  int64     // how many run on it, of all configurations
	server int       // the number of its app_server, from 0
	weight int64     // at least 1
}

// chooser chooses members by a policy. The same calls always make the same choices.
type chooser struct {
	Policy
	servers int // of the configuration
	filling int // the app_server that is filled

	// marks sums up the turns that each member was given; a turn counts as markUnit divided by the
	// weight. Among members that are equal otherwise, the one with the lowest mark is next. low is
	// the mark of the last chosen member, without its new turn. A mark below low counts as low, so
	// that a member does not make up for the time when it was not ready.
	marks []int64
	low   int64
}

// markUnit is the mark of a turn on a member of weight 1. Weights up to [MaxWeight] divide it.
const markUnit = 1 << 20

// MaxWeight is the largest weight of an app-server.
const MaxWeight = 100

// choose returns the index of the best of members, which gets a turn.
func (c *chooser) choose(members []candidate) int {
	best := c.best(members)
	c.low = c.mark(best)
	c.marks[best] = c.low + markUnit/members[best].weight
	return best
}

// best returns the index of the best of members. Each call has to pass the same members.
func (c *chooser) best(members []candidate) int {
	if c.marks == nil {
		c.marks = make([]int64, len(members))
	}
	c.fill(members)
	best := 0
	for i := range members {
		if c.compare(members, i, best) < 0 {
			best = i
		}
	}
	return best
}

func (c *chooser) mark(i int) int64 { return max(c.marks[i], c.low) }

// compare compares two members: first by state, then by due (the earlier is better), then by the
// policy, then by the turns in proportion to the weight, and last by mark.
func (c *chooser) compare(members []candidate, i, j int) int {
	a, b := &members[i], &members[j]
	return cmp.Or(
		cmp.Compare(a.state, b.state),
		a.due.Compare(b.due),
		cmp.Compare(c.rank(a), c.rank(b)),
		cmp.Compare(a.turns/a.weight, b.turns/b.weight), // fewer turns than its weight count as none
		cmp.Compare(c.mark(i), c.mark(j)),
	)
}

// rank returns the place of a member in the policy's order; lower is better.
func (c *chooser) rank(m *candidate) int {
	switch {
	case c.Name == PolicyFillFirst:
		return c.distance(m.server)
	case c.Name == PolicyReserve && m.server >= c.servers-c.Reserve:
		return 1
	}
	return 0
}

// distance returns the place of an app_server in the order that begins with the filled one.
func (c *chooser) distance(server int) int { return (server - c.filling + c.servers) % c.servers }

// fill moves to the next app_server if no process of the current one can take a turn: their logins
// rest, or they will not become ready by themselves. A process that is only being started keeps its
// place, since the provider still caches the conversations of its login.
func (c *chooser) fill(members []candidate) {
	if c.Name != PolicyFillFirst {
		return
	}
	next := c.filling
	for _, m := range members {
		switch {
		case m.server == c.filling && (m.state < isResting || m.state == isAvoided):
			return
		case m.state < isResting && (next == c.filling || c.distance(m.server) < c.distance(next)):
			next = m.server
		}
	}
	c.filling = next
}
