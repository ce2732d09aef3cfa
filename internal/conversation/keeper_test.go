package conversation

import (
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func named(name string) Hash {
	d := newDigest()
	d.field(name)
	return d.sum()
}

func kept(user, name string) Kept[string] {
	return Kept[string]{Hash: named(name), User: user, Bytes: 10, Thread: name}
}

// dropped collects what a keeper lets go of.
type dropped struct {
	mu   sync.Mutex
	gone []string
}

func (d *dropped) drop(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gone = append(d.gone, name)
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

var limits = Limits{Max: 4, MaxBytes: 1000, Idle: time.Minute, Parked: time.Hour}

func TestClaim(t *testing.T) {
	var gone dropped
	k := NewKeeper(limits, gone.drop)
	defer k.Close()
	k.Put(kept("ann", "short"))
	k.Put(kept("ann", "long"))
	links := []Link{{Hash: named("short"), Items: 2}, {Hash: named("long"), Items: 4}, {Hash: named("longer"), Items: 6}}
	one, at, found := k.Claim(links)
	if !found || one.Thread != "long" || at.Items != 4 {
		t.Errorf("claimed %q at %d, %t; want the longest", one.Thread, at.Items, found)
	}
	if one, _, found = k.Claim(links); !found || one.Thread != "short" {
		t.Errorf("then claimed %q, %t", one.Thread, found)
	}
	if _, _, found = k.Claim(links); found {
		t.Error("claimed a thread twice")
	}
	k.Put(kept("ann", "short"))
	k.Put(kept("ann", "short"))
	gone.expect(t, "short")
}

func TestFairShares(t *testing.T) {
	var gone dropped
	k := NewKeeper(limits, gone.drop)
	defer k.Close()
	k.Put(kept("bob", "b1"))
	for i := range 4 {
		k.Put(kept("ann", "a"+strconv.Itoa(i)))
	}
	gone.expect(t, "a0") // though bob's is older
	k.Put(kept("bob", "b2"))
	gone.expect(t, "a1")
	k.Put(kept("bob", "b3"))
	gone.expect(t, "b1") // both have as many
	big := kept("eve", "big")
	big.Bytes = 2000
	k.Put(big)
	gone.expect(t, "big")
	big.Bytes = 1000
	k.Put(big)
	gone.expect(t, "a2", "b2", "a3", "b3")
}

func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gone dropped
		k := NewKeeper(limits, gone.drop)
		defer k.Close()
		parked := kept("ann", "parked")
		parked.Parked = true
		k.Put(parked)
		k.Put(kept("ann", "idle"))
		time.Sleep(30 * time.Second)
		k.Put(kept("ann", "later"))
		time.Sleep(30*time.Second + time.Millisecond)
		synctest.Wait()
		gone.expect(t, "idle")
		time.Sleep(30 * time.Second)
		synctest.Wait()
		gone.expect(t, "later")
		if all, waiting := k.Counts(); all != 1 || waiting != 1 {
			t.Errorf("kept %d, %d of them parked", all, waiting)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		gone.expect(t, "parked")
	})
}

func TestLettingGo(t *testing.T) {
	var gone dropped
	k := NewKeeper(limits, gone.drop)
	for _, name := range []string{"a", "b", "c", "d"} {
		k.Put(kept("ann", name))
	}
	k.Shrink()
	gone.expect(t, "a", "b")
	k.DropIf(func(name string) bool { return name == "c" })
	gone.expect(t, "c")
	k.SetLimits(Limits{})
	gone.expect(t, "d")
	k.Put(kept("ann", "e"))
	gone.expect(t, "e")
	k.SetLimits(limits)
	k.Put(kept("ann", "f"))
	k.Close()
	k.Put(kept("ann", "g"))
	gone.expect(t, "f", "g")
}

// TestLost checks why threads are gone: each is asked for once.
func TestLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := NewKeeper(limits, func(string) {})
		defer k.Close()
		lost := func(name string) Reason { return k.Lost([]Link{{Hash: named("before")}, {Hash: named(name)}}) }
		for _, name := range []string{"evicted", "claimed", "ended", "again", "expired"} {
			k.Put(kept("ann", name))
		}
		k.Claim([]Link{{Hash: named("claimed")}})
		k.DropIf(func(name string) bool { return name == "ended" || name == "again" })
		k.Put(kept("ann", "again"))
		if n := len(k.lost); n != 2 || lost("again") != "" || lost("claimed") != "" || k.Lost(nil) != "" {
			t.Errorf("%d are lost: %v", n, k.lost)
		}
		time.Sleep(limits.Idle)
		synctest.Wait()
		for name, want := range map[string]Reason{"evicted": Evicted, "ended": Unusable, "expired": Expired} {
			if first, second := lost(name), lost(name); first != want || second != "" {
				t.Errorf("%s: %q, then %q", name, first, second)
			}
		}
		for i := range 2 * maxLost {
			k.lose(named(strconv.Itoa(i)), Expired)
		}
		if n := len(k.lost); n != maxLost || len(k.trail) > maxLost || lost(strconv.Itoa(2*maxLost-1)) != Expired {
			t.Errorf("%d are remembered, %d of them in order", n, len(k.trail))
		}
	})
}
