package conversation

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/status"
)

func named(name string) Hash {
	d := newDigest()
	d.field(name)
	return d.sum()
}

func keptFor(user, name string) *keptThread {
	return &keptThread{hash: named(name), user: user, size: 10, request: status.Request{ID: name}}
}

// dropped collects the threads that are unloaded.
type dropped struct {
	mu   sync.Mutex
	gone []string
}

func (d *dropped) drop(one *keptThread) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gone = append(d.gone, one.request.ID)
}

// expect compares what was let go of since the last call.
func (d *dropped) expect(t *testing.T, want ...string) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Equal(d.gone, want) {
		t.Errorf("let go of %q, want %q", d.gone, want)
	}
	d.gone = nil
}

// keeping returns a Threads that keeps threads within limits, and unloads them with a function.
func keeping(unload func(*keptThread)) *Threads {
	k := NewThreads(limits, func() bool { return false })
	k.unload = unload
	return k
}

func dropNow(k *Threads, match func(*keptThread) bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.dropIf(Unusable, match)
}

var limits = Limits{Max: 4, MaxBytes: 1000, Idle: time.Minute, Parked: time.Hour}

// TestEvictMany checks that the threads of the users are counted once, however many are evicted.
func TestEvictMany(t *testing.T) {
	k := NewThreads(Limits{Max: 1000, MaxBytes: 10_000, Idle: time.Hour}, func() bool { return false })
	k.unload = func(*keptThread) {}
	defer k.Close()
	for i := range 1000 {
		k.add(keptFor(strconv.Itoa(i), strconv.Itoa(i)))
	}
	if n := testing.AllocsPerRun(1, func() { k.evict(len(k.byHash)/2, 10_000) }); n > 250 || len(k.byHash) != 250 {
		t.Errorf("%v allocations for 250 threads; %d are left", n, len(k.byHash))
	}
}

func TestClaim(t *testing.T) {
	var gone dropped
	k := keeping(gone.drop)
	defer k.Close()
	k.add(keptFor("ann", "short"))
	k.add(keptFor("ann", "long"))
	links := []Link{{Hash: named("short"), Items: 2}, {Hash: named("long"), Items: 4}, {Hash: named("longer"), Items: 6}}
	if one, at := k.claim(t.Context(), links); one == nil || one.request.ID != "long" || at.Items != 4 {
		t.Errorf("claimed %+v at %d; want the longest", one, at.Items)
	}
	if one, _ := k.claim(t.Context(), links); one == nil || one.request.ID != "short" {
		t.Errorf("then claimed %+v", one)
	}
	if one, _ := k.claim(t.Context(), links); one != nil {
		t.Error("claimed a thread twice")
	}
	k.add(keptFor("ann", "short"))
	k.add(keptFor("ann", "short"))
	gone.expect(t, "short")
}

func TestFairShares(t *testing.T) {
	var gone dropped
	k := keeping(gone.drop)
	defer k.Close()
	k.add(keptFor("bob", "b1"))
	for i := range 4 {
		k.add(keptFor("ann", "a"+strconv.Itoa(i)))
	}
	gone.expect(t, "a0") // though bob's is older
	k.add(keptFor("bob", "b2"))
	gone.expect(t, "a1")
	k.add(keptFor("bob", "b3"))
	gone.expect(t, "b1") // both have as many
	big := keptFor("eve", "big")
	big.size = 2000
	k.add(big)
	gone.expect(t, "big")
	big.size = 1000
	k.add(big)
	gone.expect(t, "a2", "b2", "a3", "b3")
}

func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gone dropped
		k := keeping(gone.drop)
		defer k.Close()
		parked := keptFor("ann", "parked")
		parked.pendingCalls = []string{"call"}
		k.add(parked)
		k.add(keptFor("ann", "idle"))
		time.Sleep(30 * time.Second)
		k.add(keptFor("ann", "later"))
		time.Sleep(30*time.Second + time.Millisecond)
		synctest.Wait()
		gone.expect(t, "idle")
		time.Sleep(30 * time.Second)
		synctest.Wait()
		gone.expect(t, "later")
		if got := k.Stats(); got.Kept != 1 || got.Parked != 1 {
			t.Errorf("kept %d, %d of them parked", got.Kept, got.Parked)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		gone.expect(t, "parked")
	})
}

func TestLettingGo(t *testing.T) {
	var gone dropped
	k := keeping(gone.drop)
	for _, name := range []string{"a", "b", "c", "d"} {
		k.add(keptFor("ann", name))
	}
	k.mu.Lock()
	k.shrink()
	k.mu.Unlock()
	gone.expect(t, "a", "b")
	dropNow(k, func(one *keptThread) bool { return one.request.ID == "c" })
	gone.expect(t, "c")
	k.SetLimits(Limits{})
	gone.expect(t, "d")
	k.add(keptFor("ann", "e"))
	gone.expect(t, "e")
	k.SetLimits(limits)
	k.add(keptFor("ann", "f"))
	k.Close()
	k.add(keptFor("ann", "g"))
	gone.expect(t, "f", "g")
}

// TestLost checks why threads are gone: each is asked for once.
func TestLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keeping(func(*keptThread) {})
		defer k.Close()
		lost := func(name string) Reason { return k.takeReason([]Link{{Hash: named("before")}, {Hash: named(name)}}) }
		for _, name := range []string{"evicted", "claimed", "ended", "again", "expired"} {
			k.add(keptFor("ann", name))
		}
		k.claim(t.Context(), []Link{{Hash: named("claimed")}})
		dropNow(k, func(one *keptThread) bool { return one.request.ID == "ended" || one.request.ID == "again" })
		k.add(keptFor("ann", "again"))
		if n := len(k.dropReasons); n != 2 || lost("again") != "" || lost("claimed") != "" || k.takeReason(nil) != "" {
			t.Errorf("%d are lost: %v", n, k.dropReasons)
		}
		time.Sleep(limits.Idle)
		synctest.Wait()
		for name, want := range map[string]Reason{"evicted": Evicted, "ended": Unusable, "expired": Expired} {
			if first, second := lost(name), lost(name); first != want || second != "" {
				t.Errorf("%s: %q, then %q", name, first, second)
			}
		}
		for i := range 2 * maxDropReasons { // each is asked for, so it stays in the order alone
			k.recordReason(named(strconv.Itoa(-i)), Expired)
			if reason := lost(strconv.Itoa(-i)); reason != Expired {
				t.Fatalf("%d: %q", i, reason)
			}
		}
		if n := len(k.dropReasons); n != 0 || len(k.dropOrder) > maxDropReasons {
			t.Errorf("%d are remembered, %d of them in order", n, len(k.dropOrder))
		}
		for i := range 2 * maxDropReasons {
			k.recordReason(named(strconv.Itoa(i)), Expired)
		}
		if n := len(k.dropReasons); n != maxDropReasons || len(k.dropOrder) > maxDropReasons || lost(strconv.Itoa(2*maxDropReasons-1)) != Expired {
			t.Errorf("%d are remembered, %d of them in order", n, len(k.dropOrder))
		}
	})
}

// TestComing waits for threads that are announced.
func TestComing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := keeping(func(*keptThread) {})
		defer c.Close()
		wait := func(ctx context.Context, links []Link) (took time.Duration) {
			began := time.Now()
			c.awaitAnnounced(ctx, links)
			return time.Since(began)
		}
		links := []Link{{Hash: named("a")}, {Hash: named("b")}}
		if wait(t.Context(), nil) > 0 || wait(t.Context(), links) > 0 {
			t.Error("waited for nothing")
		}
		withdrawOlder := c.announce(named("a"))
		if wait(t.Context(), links) > 0 {
			t.Error("waited for the thread of an older answer")
		}
		withdrawOlder()
		withdraw := c.announce(named("b"))
		c.announce(named("b"))() // does not end the first one
		time.AfterFunc(time.Second, withdraw)
		if took := wait(t.Context(), links); took != time.Second {
			t.Errorf("waited for %s", took)
		}
		withdraw()
		if len(c.announced) > 0 {
			t.Error("threads that have arrived are remembered")
		}
		defer c.announce(named("b"))()
		withdraw()
		ctx, cancel := context.WithTimeout(t.Context(), announcementTimeout/2)
		defer cancel()
		if wait(ctx, links); ctx.Err() == nil {
			t.Error("did not wait until the end of the context")
		}
		if took := wait(t.Context(), links); took != announcementTimeout {
			t.Errorf("waited for %s", took)
		}
	})
}
