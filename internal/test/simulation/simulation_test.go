package simulation

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/caddy-codex/caddy-codex/internal/test/fakecodex"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

var (
	firstSeed = flag.Uint64("seed", 1, "the first seed")
	seeds     = flag.Uint64("seeds", 100, "how many seeds are run")
)

// TestSimulation runs many seeds' plans, one by one in each of several processes of this binary.
func TestSimulation(t *testing.T) {
	if work := os.Getenv(workEnv); work != "" {
		runSeeds(t, work)
		return
	}
	spread(t, *firstSeed, *seeds)
}

// runSeeds runs the seeds of one process, given as the first one and the one after the last.
func runSeeds(t *testing.T, work string) {
	var first, end uint64
	if _, err := fmt.Sscan(work, &first, &end); err != nil {
		t.Fatal(err)
	}
	recordings := loadRecordings(t)
	for seed := first; seed < end; seed++ {
		fmt.Printf("%s%d\n", progress, seed)
		var r *run
		synctest.Test(t, func(*testing.T) { r = play(newPlan(seed), recordings) })
		if len(r.failures) > 0 {
			t.Errorf("%s", r.report())
			return
		}
	}
}

func loadRecordings(t *testing.T) *fakecodex.Transcripts {
	t.Helper()
	recordings, err := fakecodex.Load(filepath.Join("..", "..", "..", "testdata", "transcripts"))
	must.OK(t, err)
	return recordings
}

// TestConversationsGoOn checks that conversations in the simulation continue in their
// threads, resume their turns, lose their threads for each reason, and are shortened in each way.
func TestConversationsGoOn(t *testing.T) {
	recordings := loadRecordings(t)
	missing := []string{"continued", "resumed", "evicted", "expired", "process_ended", "served though a meter is spent", "refused with a spent meter"}
	missing = append(missing, ways...)
	const first, most = 42, 300 // all of it is soon seen from this seed on
	for seed := uint64(first); len(missing) > 0; seed++ {
		if seed == first+most {
			t.Fatalf("in %d runs no conversation is %s", most, strings.Join(missing, ", "))
		}
		var r *run
		synctest.Test(t, func(*testing.T) { r = play(newPlan(seed), recordings) })
		missing = slices.DeleteFunc(missing, func(what string) bool { return r.seen[what] > 0 })
		for _, p := range r.fleet.all {
			s := p.conversations.Stats()
			missing = slices.DeleteFunc(missing, func(what string) bool {
				return what == "continued" && s.Continued > 0 || what == "resumed" && s.Resumed > 0 || s.Fallbacks[what] > 0
			})
		}
	}
}

// report describes a failed run.
func (r *run) report() string {
	var b strings.Builder
	for _, f := range r.failures {
		fmt.Fprintf(&b, "\n%s", f)
	}
	fmt.Fprintf(&b, "\n\n%s\nwhat happened:\n%s", r.plan, strings.Join(r.trace.lines, "\n"))
	return b.String()
}

// TestPlansRepeat checks that a seed always gives the same plan, and another seed another plan.
func TestPlansRepeat(t *testing.T) {
	one, again, other := newPlan(7).String(), newPlan(7).String(), newPlan(8).String()
	if one != again || one == other {
		t.Errorf("%s\n%s\n%s", one, again, other)
	}
}
