package pool

import (
	"slices"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/draw"
)

// TestChoiceOrder checks which of two members is better, in either order.
func TestChoiceOrder(t *testing.T) {
	soon, late := time.Now().Add(time.Second), time.Now().Add(time.Minute)
	order := []candidate{ // best first
		{readiness: isReady}, {readiness: isReady, turns: 1}, {readiness: isReady, turns: 9},
		{readiness: isStarting}, {readiness: isStarting, turns: 2},
		{readiness: isFailing, readyAt: soon, turns: 5}, {readiness: isFailing, readyAt: late},
		{readiness: isUnresponsive},
		{readiness: isWaiting, readyAt: soon, turns: 5}, {readiness: isWaiting, readyAt: late},
		{readiness: isResting, readyAt: soon, turns: 5}, {readiness: isResting, readyAt: late},
		{readiness: isSignedOut, readyAt: soon},
		{readiness: isFailed}, {readiness: isAvoided},
	}
	for _, policy := range []string{PolicySpread, PolicyReserve} {
		for i, a := range order {
			for j, b := range order {
				c := chooser{Policy: Policy{Name: policy, Reserve: 1}, servers: 2}
				if got := c.choose([]candidate{a, b}); i != j && (got == 0) != (i < j) {
					t.Errorf("%s: of %+v and %+v it takes number %d", policy, a, b, got)
				}
			}
		}
	}
}

// idleMembers returns idle members, one of each app_server.
func idleMembers(servers int) (all []candidate) {
	for i := range servers {
		all = append(all, candidate{server: i})
	}
	return all
}

// TestChoiceSpreads checks that turns one after the other, and turns side by side, are spread evenly,
// and that a member that was away does not make up for it.
func TestChoiceSpreads(t *testing.T) {
	for _, sideBySide := range []bool{false, true} {
		c, members, counts := chooser{servers: 3}, idleMembers(3), make([]int, 3)
		for range 300 {
			at := c.choose(members)
			counts[at]++
			if sideBySide {
				members[at].turns++
			}
		}
		if !slices.Equal(counts, []int{100, 100, 100}) {
			t.Errorf("side by side %t: %v", sideBySide, counts)
		}
	}
	c, members := chooser{servers: 2}, idleMembers(2)
	members[0].readiness = isResting
	for range 1000 {
		c.choose(members)
	}
	members[0].readiness = isReady
	counts := make([]int, 2)
	for range 100 {
		counts[c.choose(members)]++
	}
	if counts[0] > 52 {
		t.Errorf("a member that was away gets %v", counts)
	}
}

// TestChoiceReserve checks that the reserve takes turns only if no other can.
func TestChoiceReserve(t *testing.T) {
	c, members := chooser{Policy: Policy{Name: PolicyReserve, Reserve: 2}, servers: 4}, idleMembers(4)
	servers := func() (all []int) {
		for range 6 {
			if at := c.choose(members); !slices.Contains(all, members[at].server) {
				all = append(all, members[at].server)
			}
		}
		slices.Sort(all)
		return all
	}
	members[0].turns, members[1].turns = 5, 5
	if got := servers(); !slices.Equal(got, []int{0, 1}) {
		t.Errorf("busy ones before the reserve: %v", got)
	}
	members[0].readiness = isResting
	if got := servers(); !slices.Equal(got, []int{1}) {
		t.Errorf("one is left: %v", got)
	}
	members[1].readiness = isWaiting
	if got := servers(); !slices.Equal(got, []int{2, 3}) {
		t.Errorf("none is left: %v", got)
	}
}

// TestChoiceProperties checks of random pools that a turn never goes to a member that is
// less ready than another, that equal calls make equal choices, that the reserve and other
// logins are spared as the policy says, and that no member that can take turns is forgotten.
func TestChoiceProperties(t *testing.T) {
	random := draw.Random(t)
	for range draw.Cases(60, 300) {
		members := idleMembers(0)
		servers := 2 + random.IntN(3)
		for server := range servers {
			for range 1 + random.IntN(3) {
				members = append(members, candidate{server: server})
			}
		}
		policy := Policy{Name: []string{PolicySpread, PolicyReserve}[random.IntN(2)], Reserve: 1}
		c, twin := chooser{Policy: policy, servers: servers}, chooser{Policy: policy, servers: servers}
		given := make([]int, len(members))
		for range 50 {
			for i := range members {
				if random.IntN(4) == 0 {
					members[i].readiness = random.IntN(isAvoided + 1)
				}
				members[i].turns = max(0, members[i].turns-int64(random.IntN(2)))
			}
			at := c.choose(members)
			if again := twin.choose(members); again != at {
				t.Fatalf("%v: %d, then %d", policy, at, again)
			}
			for i := range members {
				switch m := &members[i]; {
				case m.readiness < members[at].readiness:
					t.Fatalf("%v: %+v before %+v", policy, members[at], *m)
				case m.readiness > members[at].readiness:
				case policy.Name == PolicyReserve && members[at].server == servers-1 && m.server != servers-1:
					t.Fatalf("%v: the reserve before %+v", policy, *m)
				}
			}
			members[at].turns++
			given[at]++
		}
		for i := range members {
			members[i].readiness, members[i].turns = isReady, 0
		}
		seen := make(map[int]bool)
		for range 100 * len(members) {
			seen[c.choose(members)] = true
		}
		for i := range members {
			could := policy.Name == PolicySpread || members[i].server < servers-1
			if seen[i] != could {
				t.Fatalf("%v: %+v got a turn: %t", policy, members[i], seen[i])
			}
		}
	}
}
