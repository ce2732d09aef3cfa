package claims

import "sync"

const (
	// small is the size up to which a claim may use the whole of a budget of bytes.
	small = 1 << 20

	// kept is the part of a budget, one eighth, that larger claims leave to small ones,
	// so that a few large buffers do not block all others.
	kept = 8
)

// Budget is a number of bytes, or of other units, that claims share. A claim that finds no
// room is refused at once. The methods of a Budget are safe for concurrent use.
//
// A user who shares the server with others, see [Crowd], may hold as much as stays free: alone
// half of the budget, beside another one a third. Up to Least a user may hold whatever is free.
type Budget struct {
	limit, least int64
	crowd        *Crowd

	mu    sync.Mutex
	held  int64
	users map[string]*holder // those who hold something
	spare *holder            // one that is not used, so that most claims allocate nothing
}

// holder is what the claims of one user hold together.
type holder struct{ held int64 }

// NewBudget returns a budget of a limit, of which each user may hold least, if that is free.
func NewBudget(limit, least int64, crowd *Crowd) *Budget {
	return &Budget{limit: limit, least: least, crowd: crowd, users: make(map[string]*holder)}
}

// Held returns how much is in use.
func (b *Budget) Held() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held
}

// Claim returns an empty claim of a user. Its holder must release it.
func (b *Budget) Claim(user string) *Claim { return &Claim{budget: b, user: user} }

// fits reports whether a claim of a size may grow by n. The lock is held.
func (b *Budget) fits(user string, size, n int64) bool {
	limit := b.limit
	if size+n > small {
		limit -= limit / kept
	}
	if b.held+n > limit {
		return false
	}
	mine := n
	if h := b.users[user]; h != nil {
		mine += h.held
	}
	return mine <= b.least || mine <= b.limit-b.held-n || !b.crowd.Shares(user)
}

// add adds n, which may be negative, to what a user holds. The lock is held.
func (b *Budget) add(user string, n int64) {
	h := b.users[user]
	if h == nil {
		if h, b.spare = b.spare, nil; h == nil {
			h = new(holder)
		}
		b.users[user] = h
	}
	b.held += n
	if h.held += n; h.held == 0 {
		delete(b.users, user)
		b.spare = h
	}
}

// Claim is the part of a budget that one holder uses. It must not be used by several
// goroutines at once.
type Claim struct {
	budget *Budget
	user   string
	size   int64
}

// Size returns how much the claim holds.
func (c *Claim) Size() int64 { return c.size }

// Fits reports whether the claim could now grow by n.
func (c *Claim) Fits(n int64) bool {
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	return c.budget.fits(c.user, c.size, n)
}

// Grow takes n more. It takes none and reports false if the budget has no room for that, or
// its user holds too much.
func (c *Claim) Grow(n int64) bool {
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	if !c.budget.fits(c.user, c.size, n) {
		return false
	}
	c.budget.add(c.user, n)
	c.size += n
	return true
}

// Shrink gives back what the claim holds above a size.
func (c *Claim) Shrink(size int64) {
	if size >= c.size {
		return
	}
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	c.budget.add(c.user, size-c.size)
	c.size = size
}

// Release gives everything back. The claim may grow again.
func (c *Claim) Release() { c.Shrink(0) }
