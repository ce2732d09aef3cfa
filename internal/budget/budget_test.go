package budget

import (
	"math/rand/v2"
	"sync"
	"testing"
)

func TestClaim(t *testing.T) {
	b := New(100)
	one, other := b.Claim(), b.Claim()
	if !one.Grow(60) || !other.Fits(40) || !other.Grow(40) || other.Fits(1) || other.Grow(1) {
		t.Errorf("%d and %d of 100 bytes", one.Size(), other.Size())
	}
	one.Shrink(70) // it has less
	one.Shrink(50)
	if b.Held() != 90 || !other.Grow(10) {
		t.Errorf("%d bytes are held", b.Held())
	}
	one.Release()
	one.Release()
	other.Release()
	if b.Held() != 0 || !one.Grow(100) {
		t.Errorf("%d bytes are held", b.Held())
	}
}

// TestKept: large claims leave an eighth to small ones.
func TestKept(t *testing.T) {
	b := New(16 * small)
	large, growing := b.Claim(), b.Claim()
	if large.Fits(15*small) || large.Grow(15*small) || !large.Grow(13*small) || !growing.Grow(small) {
		t.Error("a large claim has taken", large.Size())
	}
	if growing.Grow(1) {
		t.Error("a small one has become large")
	}
	if one, two := b.Claim(), b.Claim(); !one.Grow(small) || !two.Grow(small) || b.Claim().Grow(1) {
		t.Errorf("small ones have taken %d", b.Held())
	}
}

// TestConcurrently: whatever claims do at once, there is never more in use than
// there is, and in the end nothing is.
func TestConcurrently(t *testing.T) {
	b := New(1000)
	var all sync.WaitGroup
	for i := range 8 {
		random := rand.New(rand.NewPCG(uint64(i), 1))
		all.Go(func() {
			c := b.Claim()
			defer c.Release()
			for range 5000 {
				if before := c.Size(); !c.Grow(random.Int64N(300)) && c.Size() != before {
					t.Errorf("%d bytes after a refusal, %d before", c.Size(), before)
				}
				if held := b.Held(); held > 1000 || held < c.Size() {
					t.Errorf("%d bytes are held, %d by one", held, c.Size())
				}
				c.Shrink(random.Int64N(300))
			}
		})
	}
	all.Wait()
	if b.Held() != 0 {
		t.Errorf("%d bytes are left", b.Held())
	}
}
