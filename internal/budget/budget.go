// Package budget bounds the memory that buffers of one kind use together.
package budget

import "sync/atomic"

const (
	// small is the size up to which a claim may use the whole budget, in bytes.
	small = 1 << 20

	// kept is the part of a budget, one eighth, that larger claims leave to small ones,
	// so that a few large buffers do not block all others.
	kept = 8
)

// Budget is a number of bytes that many buffers share. It is safe for concurrent
// use.
type Budget struct {
	limit int64
	held  atomic.Int64
}

// New returns a budget of limit bytes.
func New(limit int64) *Budget { return &Budget{limit: limit} }

// Held returns the number of bytes in use.
func (b *Budget) Held() int64 { return b.held.Load() }

// Claim returns an empty claim. Its holder must release it.
func (b *Budget) Claim() *Claim { return &Claim{budget: b} }

// limitFor returns how many bytes may be in use when a claim grows to a size.
func (b *Budget) limitFor(size int64) int64 {
	if size <= small {
		return b.limit
	}
	return b.limit - b.limit/kept
}

// Claim is the part of a budget that one holder uses. It must not be used by several
// goroutines at once.
type Claim struct {
	budget *Budget
	size   int64
}

// Size returns the number of bytes of the claim.
func (c *Claim) Size() int64 { return c.size }

// Fits reports whether the budget now has room for the claim to grow by n bytes.
func (c *Claim) Fits(n int64) bool {
	return c.budget.held.Load()+n <= c.budget.limitFor(c.size+n)
}

// Grow takes n more bytes. It takes none and reports false if the budget has no room for
// them.
func (c *Claim) Grow(n int64) bool {
	limit := c.budget.limitFor(c.size + n)
	for {
		held := c.budget.held.Load()
		if held+n > limit {
			return false
		}
		if c.budget.held.CompareAndSwap(held, held+n) {
			c.size += n
			return true
		}
	}
}

// Shrink gives back the bytes of the claim above a size.
func (c *Claim) Shrink(size int64) {
	if size < c.size {
		c.budget.held.Add(size - c.size)
		c.size = size
	}
}

// Release gives all bytes back. The claim may grow again.
func (c *Claim) Release() { c.Shrink(0) }
