package claims

import "sync"

const (
	// smallClaim is the most bytes of a small claim. A small claim may also use the reserve of a
	// budget, see reserveDivisor.
	smallClaim = 1 << 20

	// reserveDivisor: an eighth of a budget is for small claims only, so that a few large ones do
	// not block all others.
	reserveDivisor = 8
)

// Budget is a number of bytes, or of other units, that requests share. Each request has a [Claim]
// on a part of it. If the budget has no room for a claim, the claim fails immediately. A Budget is
// safe for concurrent use.
//
// If a user shares the server with others (see [Crowd]), the user's claims together may hold at
// most as much as is then still free. So a user gets half of the budget if nobody else uses it, or
// a third if one other user uses as much. But each user may always use minShare units, if so many
// are free.
type Budget struct {
	limit, minShare int64
	crowd           *Crowd

	mu    sync.Mutex
	used  int64
	users map[string]*holder // by name: the holders that use a part of the budget, and the one in idle
	idle  *holder            // the holder whose use fell to 0 most recently, kept to be reused; nil: none
}

// holder is a user's entry in a budget. It counts how much all claims of the user hold together.
type holder struct {
	user string
	used int64
}

// NewBudget returns a budget of limit units, such as bytes. Each user may always use up to minShare
// units, if so many are free.
func NewBudget(limit, minShare int64, crowd *Crowd) *Budget {
	return &Budget{limit: limit, minShare: minShare, crowd: crowd, users: make(map[string]*holder)}
}

// Held returns how much of the budget is in use.
func (b *Budget) Held() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// Claim returns an empty claim of a user. The caller must call Release at the end.
func (b *Budget) Claim(user string) *Claim { return &Claim{budget: b, user: user} }

// fits reports whether a claim may grow by n. h is the holder of the claim's user, or nil if there
// is none. The caller holds the lock.
func (b *Budget) fits(c *Claim, h *holder, n int64) bool {
	limit := b.limit
	if c.size+n > smallClaim {
		limit -= limit / reserveDivisor
	}
	if b.used+n > limit {
		return false
	}
	userTotal := n
	if h != nil {
		userTotal += h.used
	}
	return userTotal <= b.minShare || userTotal <= b.limit-b.used-n || !b.crowd.Shares(c.user)
}

// add adds n, which may be negative, to what a user holds. The caller holds the lock.
func (b *Budget) add(h *holder, n int64) {
	b.used += n
	if h.used += n; h.used == 0 && h != b.idle {
		b.forgetIdle()
		b.idle = h
	}
}

// addHolder makes a holder for a user who has none. The caller holds the lock.
func (b *Budget) addHolder(user string) *holder {
	h := b.forgetIdle()
	if h == nil {
		h = new(holder)
	}
	h.user = user
	b.users[user] = h
	return h
}

// forgetIdle removes the holder b.idle from the budget and returns it for reuse, or nil if there is
// none or it is in use again. The caller holds the lock.
func (b *Budget) forgetIdle() *holder {
	h := b.idle
	if b.idle = nil; h == nil || h.used > 0 {
		return nil
	}
	delete(b.users, h.user)
	return h
}

// Claim is the part of a budget that one request or connection of a user uses. A Claim is not safe
// for concurrent use.
type Claim struct {
	budget *Budget
	user   string
	size   int64
	holder *holder // the entry of the user; nil before the first growth
}

// Size returns how much the claim holds.
func (c *Claim) Size() int64 { return c.size }

// Fits reports whether the claim could now grow by n.
func (c *Claim) Fits(n int64) bool {
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	return c.budget.fits(c, c.budget.users[c.user], n)
}

// Grow enlarges the claim by n. If the budget has no room for n more, or if the user would exceed
// the share of a user, Grow changes nothing and returns false.
func (c *Claim) Grow(n int64) bool {
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	h := c.budget.users[c.user]
	if !c.budget.fits(c, h, n) {
		return false
	}
	if h == nil {
		h = c.budget.addHolder(c.user)
	}
	c.budget.add(h, n)
	c.holder, c.size = h, c.size+n
	return true
}

// Shrink reduces the claim to size. If the claim is not larger than size, Shrink does nothing.
func (c *Claim) Shrink(size int64) {
	if size >= c.size {
		return
	}
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	c.budget.add(c.holder, size-c.size)
	c.size = size
}

// Release gives back all that the claim holds. The claim may grow again.
func (c *Claim) Release() { c.Shrink(0) }
